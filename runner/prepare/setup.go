package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/snapshot"
	"codex-proxy/runner/workspace"
)

// setUpNote begins the note of a build that runs a set-up; the ID of its user is behind it.
const setUpNote = "setup "

// lendPlace makes the directories that a set-up fills, and the links by which its unit sees them where a session does.
// The directory above them is root's: what is published has the names that root gave it.
func (u buildUnit) lendPlace(b setup.Build) error {
	state, err := openDir(u.state())
	if err != nil {
		return err
	}
	defer state.Close()
	user, err := ownerOf(state.File)
	if err != nil {
		return err
	}
	part, err := state.make(paths.SnapshotPart, owner{})
	if err != nil {
		return err
	}
	defer part.Close()
	if err := errors.Join(part.Chmod(0o755), part.makePlace(user)); err != nil {
		return err
	}
	if b.From != "" {
		if err := u.fillPlace(part, b, user); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{
		paths.WorkspaceLink:  filepath.Join(u.state(), paths.SnapshotPart, paths.Checkout),
		paths.HomeLink:       filepath.Join(u.state(), paths.SnapshotPart, paths.SetUpHome),
		paths.RepositoryLink: filepath.Join(paths.RepositoryStates, b.Scope.Repository),
	} {
		if err := os.Symlink(to, filepath.Join(u.links(), name)); err != nil {
			return err
		}
	}
	return u.addAccounts(u.links(), paths.BuildUser(u.instance), "set-up of codex-runner", user)
}

// fillPlace has a set-up begin with the files of a snapshot of its user. One that is not whole, or is removed
// meanwhile, leaves the place empty.
func (u buildUnit) fillPlace(part dir, b setup.Build, user owner) error {
	if err := errors.Join(paths.CheckOwner(b.Scope.User), paths.CheckEnvironment(b.From)); err != nil {
		return err
	}
	from := u.snapshot(b.Scope.User, b.From)
	whole, err := from.open()
	if err == nil {
		err = errors.Join(from.copyTo(part, user), whole.Close())
	}
	if err == nil {
		return nil
	}
	for _, name := range []string{paths.Checkout, paths.SetUpHome} {
		if err := emptyDir(filepath.Join(part.Name(), name)); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies the files of a snapshot into the place of a build, and notes that they are there. The snapshot may be
// removed meanwhile, as no session has it: then paths.Whole goes first.
func (d snapshotDir) copyTo(part dir, user owner) error {
	for _, name := range []string{paths.Checkout, paths.SetUpHome} {
		c := snapshot.Copy{
			Snapshot: filepath.Join(string(d), name), Target: filepath.Join(part.Name(), name),
			Owner: snapshot.Owner{UID: user.uid, GID: user.gid},
		}
		if err := c.Files(); err != nil {
			return err
		}
	}
	if err := copyFile(string(d), part.Name(), paths.Record); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(string(d), paths.Whole)); err != nil {
		return err
	}
	return copyFile(string(d), part.Name(), paths.Left) // the note
}

// makePlace makes the entries of a snapshot, for the user that fills them.
func (d dir) makePlace(user owner) error {
	for _, name := range []string{paths.Checkout, paths.SetUpHome} {
		sub, err := d.make(name, user)
		if err != nil {
			return err
		}
		if err := errors.Join(sub.Chmod(0o755), sub.Close()); err != nil {
			return err
		}
	}
	for _, name := range []string{paths.Record, paths.Left} {
		file, err := d.create(name, user)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// publishSetUp has the sessions of a user begin with what a set-up has left, if it was whole and another build has not
// made the same one meanwhile.
func (u buildUnit) publishSetUp(user string) error {
	key, err := u.made()
	if err == nil && key != "" {
		err = errors.Join(paths.CheckOwner(user), paths.CheckEnvironment(key))
	}
	if err != nil || key == "" {
		return err
	}
	state, err := openDir(u.state())
	if err != nil {
		return err
	}
	defer state.Close()
	part, err := state.sub(paths.SnapshotPart)
	if err != nil {
		return err
	}
	defer part.Close()
	if err := part.seal(key); err != nil {
		return fmt.Errorf("sessions cannot have what the set-up left: %w", err)
	}
	to := u.snapshot(user, key)
	if _, err := to.open(); err == nil {
		return nil
	}
	if err := errors.Join(workspace.Remove(string(to)), os.MkdirAll(filepath.Dir(string(to)), 0o700)); err != nil {
		return err
	}
	return unix.Renameat2(int(state.Fd()), paths.SnapshotPart, unix.AT_FDCWD, string(to), unix.RENAME_NOREPLACE)
}

// seal gives a snapshot to root, less all but files, directories and links, and marks it as whole. Nothing in it is
// trusted before: a set-up could have left anything there.
func (d dir) seal(key string) error {
	if err := (gift{drop: true}).all(d, "", 1); err != nil {
		return err
	}
	for _, name := range []string{paths.Checkout, paths.SetUpHome} {
		sub, err := d.sub(name)
		if err != nil {
			return err
		}
		if err := sub.Close(); err != nil {
			return err
		}
	}
	for _, name := range []string{paths.Record, paths.Left} {
		file, err := d.open(name)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return errors.Join(d.remove(paths.Whole), d.publish(paths.Whole, []byte(key+"\n"), owner{}))
}

// made returns the key of the snapshot that the build has made, or "". The main process wrote it, and its set-up could
// not.
func (u buildUnit) made() (string, error) {
	state, err := openDir(u.StateDir)
	if err != nil {
		return "", err
	}
	defer state.Close()
	const maxResult = 1 << 20
	text, err := state.read(filepath.Join(paths.EnvironmentDir(u.instance), paths.Result), maxResult)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return "", nil
	}
	var built struct {
		Key     string          `json:"key"`
		Made    bool            `json:"made"`
		Failure json.RawMessage `json:"failure"`
	}
	if err == nil {
		err = json.Unmarshal(text, &built)
	}
	if err != nil || !built.Made || built.Failure != nil {
		return "", err
	}
	return built.Key, nil
}

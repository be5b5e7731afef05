package prepare

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/snapshot"
)

// snapshotDir is the directory of a snapshot. Root alone can change it.
type snapshotDir string

// snapshot returns the directory of a snapshot of a user.
func (h Host) snapshot(user, key string) snapshotDir {
	return snapshotDir(filepath.Join(h.environments(), paths.SnapshotOwner(user), key))
}

// open returns Left of a snapshot that is whole.
func (d snapshotDir) open() (*os.File, error) {
	for name, isDir := range map[string]bool{
		paths.Checkout: true, paths.SetUpHome: true, paths.Record: false, paths.Whole: false,
	} {
		info, err := os.Lstat(filepath.Join(string(d), name))
		if err == nil && (info.IsDir() != isDir || !isDir && !info.Mode().IsRegular()) {
			err = fmt.Errorf("%s of the snapshot is of another kind", name)
		}
		if err != nil {
			return nil, err
		}
	}
	return os.Open(filepath.Join(string(d), paths.Left))
}

// sessionFiles are the HOME of a session and its writable copies of a snapshot.
type sessionFiles struct{ sessionUnit }

// lendFiles links the workspace and HOME of the session, for BindPaths= of the unit. A session that begins with a
// snapshot has mounts there, or a copy of each file.
func (s sessionFiles) lendFiles(files inheritance, spec *session.Spec, slot string, user owner) error {
	tree, home := filepath.Join(slot, paths.Tree), s.home()
	if err := s.makeHome(user); err != nil {
		return err
	}
	if e := spec.Environment; e != nil && e.Snapshot != nil {
		merged, err := s.lendSnapshot(files, spec, slot, user)
		if err != nil {
			return fmt.Errorf("cannot give what the set-up has left to the session: %w", err)
		}
		if merged {
			tree, home = filepath.Join(slot, paths.Merged), filepath.Join(slot, paths.MergedHome)
		}
	}
	return errors.Join(os.Symlink(tree, filepath.Join(s.dir(), paths.WorkspaceLink)),
		os.Symlink(home, filepath.Join(s.dir(), paths.HomeLink)))
}

func (s sessionFiles) home() string { return filepath.Join(s.Workspaces, paths.HomeDir(s.id)) }

// homeWork is what the mount of HOME needs besides.
func (s sessionFiles) homeWork() string { return filepath.Join(s.Workspaces, paths.HomeWork(s.id)) }

// makeHome makes the home of the session, or gives it to another user: systemd gives its dynamic users anew.
func (s sessionFiles) makeHome(user owner) error {
	if err := makeApart(s.home()); err != nil {
		return err
	}
	home, err := openDir(s.home())
	if err != nil {
		return err
	}
	defer home.Close()
	return give(home, user)
}

// lendSnapshot gives a session the files of its snapshot, and reports whether these are mounted. A snapshot that is not
// whole is not used: the set-up runs in the session then.
func (s sessionFiles) lendSnapshot(
	files inheritance, spec *session.Spec, slot string, user owner,
) (merged bool, err error) {
	want := spec.Environment.Snapshot
	from := s.snapshot(want.User, want.Key)
	whole, err := from.open()
	switch {
	case err == nil:
		files[paths.SnapshotFile] = whole
	case spec.Workspace != nil:
		return false, nil
	default:
		return false, fmt.Errorf("%s: make a new session (%w)", session.NoSnapshot, err)
	}
	if spec.Workspace != nil {
		// The checkout of the session knows the files of the snapshot by it.
		if err := copyFile(string(from), slot, paths.Record); err != nil {
			return false, err
		}
	}
	copies := s.copies(string(from), slot, snapshot.Owner{UID: user.uid, GID: user.gid})
	err = s.OnHost(func() error { return errors.Join(s.unmount(slot), snapshot.Mount(copies...)) })
	if errors.Is(err, snapshot.ErrUnsupported) {
		return false, copyAll(copies, spec.Workspace != nil)
	}
	if err == nil {
		files[paths.ChangesFile], err = os.Open(filepath.Join(slot, paths.Tree))
	}
	if err == nil {
		files[paths.HomeFile], err = os.Open(s.home())
	}
	return true, err
}

// copies are those of the checkout and of HOME.
func (s sessionFiles) copies(from, slot string, user snapshot.Owner) []snapshot.Copy {
	return []snapshot.Copy{{
		Snapshot: filepath.Join(from, paths.Checkout), Changes: filepath.Join(slot, paths.Tree),
		Work: filepath.Join(slot, paths.Work), Target: filepath.Join(slot, paths.Merged), Owner: user,
	}, {
		Snapshot: filepath.Join(from, paths.SetUpHome), Changes: s.home(), Work: s.homeWork(),
		Target: filepath.Join(slot, paths.MergedHome), Owner: user,
	}}
}

// forgetMounts removes the mounts of a slot that the end of an earlier unit has left, as after a SIGKILL.
func (s sessionFiles) forgetMounts(slot string) error {
	if _, err := os.Lstat(filepath.Join(slot, paths.Merged)); err != nil {
		return ignoreMissing(err)
	}
	return s.OnHost(func() error { return s.unmount(slot) })
}

// unmount removes the mounts of a slot, and what only they need.
func (s sessionFiles) unmount(slot string) error {
	err := errors.Join(snapshot.Unmount(filepath.Join(slot, paths.Merged)),
		snapshot.Unmount(filepath.Join(slot, paths.MergedHome)))
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(filepath.Join(slot, paths.Work)), os.RemoveAll(s.homeWork()))
}

// copyAll copies the files of a snapshot into a new workspace, and into an empty HOME.
func copyAll(copies []snapshot.Copy, anew bool) error {
	for i, c := range copies {
		c.Target = c.Changes
		if i == 0 && anew {
			if err := emptyDir(c.Target); err != nil {
				return err
			}
		}
		entries, err := os.ReadDir(c.Target)
		if err != nil {
			return err
		}
		if len(entries) > 0 || !anew {
			continue
		}
		if err := c.Files(); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file of a snapshot, of any size: foreign code wrote it.
func copyFile(from, to, name string) error {
	file, err := os.Open(filepath.Join(from, name))
	if err != nil {
		return err
	}
	defer file.Close()
	made, err := os.OpenFile(filepath.Join(to, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(made, file)
	return errors.Join(err, made.Close())
}

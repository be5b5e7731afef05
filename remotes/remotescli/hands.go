package remotescli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"codex-proxy/notify"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/sessions"
	"codex-proxy/units"
)

// Commands becomes journalctl for the commands that the hands of a remote have executed.
func (r *Remotes) Commands(name string, options ...string) error {
	if err := r.hasHands(name); err != nil {
		return err
	}
	return notify.Become(append(journalOf(name), options...))
}

// journalOf shows the entries of the remote's own unit: any program can write one with our fields, and journald itself
// adds the unit.
func journalOf(name string) []string {
	return []string{"journalctl", "_SYSTEMD_UNIT=" + units.Remote(name), "CODEX_REMOTE=" + name,
		"CODEX_EVENT=hands-command"}
}

// hasHands is the error of a remote without hands.
func (p *Places) hasHands(name string) error {
	if err := p.known(name); err != nil {
		return err
	}
	s, err := remoteconfig.Load(p.fileOf(name))
	if err == nil && s.Hands == nil {
		err = fmt.Errorf("the remote %s has no [hands] in %s: its codex executes commands itself, and they are in its "+
			"threads", name, s.File)
	}
	return err
}

// Diff prints the changes in the workspace of the hands, or makes a branch of them.
func (r *Remotes) Diff(ctx context.Context, name string) error {
	if err := r.hasHands(name); err != nil {
		return err
	}
	if s, err := remoteconfig.Load(r.fileOf(name)); err == nil && s.Hands.URL != "" {
		return fmt.Errorf("the hands of the remote %s are at %s: take the changes there, as by codex-runner diff", name,
			s.Hands.URL)
	}
	c := client.New(r.Runner)
	defer c.Close()
	session, err := r.sessionOf(ctx, c, name)
	if err == nil && session == "" {
		err = fmt.Errorf("the remote %[1]s has no session yet: codex-proxy attach %[1]s makes one", name)
	}
	if err != nil {
		return err
	}
	d := sessions.Diff{Client: c, Stdout: r.Stdout, Stderr: r.Stderr, Branch: r.Branch,
		Message: fmt.Sprintf("Changes by the remote %s\n\nThey are from the session %s of codex-runner.\n", name, session)}
	if r.Branch != "" {
		if d.Repo, err = r.repoOf(name); err != nil {
			return err
		}
	}
	unit, err := r.describe(ctx, units.Remote(name))
	if err != nil {
		return err
	}
	if unit.ActiveState == "active" { // else there is no command to wait for
		d.Execute = func(ctx context.Context, begin bool) (stdout, stderr []byte, err error) {
			return remoteapi.Changes(ctx, r.Socket(name), begin)
		}
	}
	return d.Run(ctx, session)
}

// repoOf is the directory that gets the branch: the one of the file, not the one that the session names.
func (p *Places) repoOf(name string) (string, error) {
	s, err := remoteconfig.Load(p.fileOf(name))
	if err != nil {
		return "", err
	}
	dir := s.Hands.RepoDirectory()
	if dir == "" {
		return "", fmt.Errorf("hands.repo of %s is no directory: codex-proxy remotes diff %s prints the patch", s.File,
			name)
	}
	return dir, ours(dir)
}

// ours is the fault of a path with a part that another user can exchange, such as by a link.
func ours(dir string) error {
	const mostParts = 256 // links can be a circle
	rest := strings.Split(filepath.Clean(dir), "/")
	at := "/"
	for range mostParts {
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if st, is := info.Sys().(*syscall.Stat_t); !is || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to another user, who can lead the branch elsewhere: codex-proxy remotes diff "+
				"without --branch prints the patch, which that user can apply", at)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(at)
		if err != nil {
			return err
		}
		if at = filepath.Dir(at); filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return fmt.Errorf("%s leads through too many links", dir)
}

// sessionOf is the session of a remote's hands; empty: none yet. The user of the remote writes the record, so a session
// of another user is refused. The home itself belongs to the remote's user, and lies where root alone writes.
func (p *Places) sessionOf(ctx context.Context, c *client.Client, name string) (session string, err error) {
	var home string
	for _, home = range p.homesOf(name) {
		if session, err = hands.SessionOf(filepath.Join(home, remotesManager)); session != "" || err != nil {
			break
		}
	}
	if session == "" || err != nil {
		return "", err
	}
	info, err := os.Stat(home)
	if err != nil {
		return "", err
	}
	s, err := c.Session(ctx, session)
	if err != nil {
		return "", err
	}
	if st, is := info.Sys().(*syscall.Stat_t); !is || st.Uid != s.Owner.UID {
		return "", fmt.Errorf("the session %s in the record of the remote %s belongs to another user, %d: remove %s",
			session, name, s.Owner.UID, filepath.Join(home, remotesManager, "hands.json"))
	}
	return session, nil
}

// handsBound bounds the requests to codex-runner of a remove.
const handsBound = time.Minute

// closeHands closes the session of the hands of a remote that is removed, and returns its ID; empty without a session.
func (p *Places) closeHands(ctx context.Context, name string) (session string, err error) {
	ctx, cancel := context.WithTimeout(ctx, handsBound)
	defer cancel()
	c := client.New(p.Runner)
	defer c.Close()
	var refused *wire.Error
	session, err = p.sessionOf(ctx, c, name)
	if errors.As(err, &refused) && refused.Code == wire.NotFound { // it is forgotten
		return "", nil
	}
	if session == "" || err != nil {
		return "", err
	}
	// The session keeps the changes that were taken last.
	_ = sessions.Diff{Client: c, Stdout: io.Discard, Stderr: io.Discard}.Run(ctx, session) // it may be closed
	if _, err = c.Cancel(ctx, session, 0); errors.As(err, &refused) {                      // it is closed, or forgotten
		return "", nil
	}
	return session, err
}

// remotesManager is the directory in the home of a remote that its codex cannot see.
const remotesManager = "keeper"

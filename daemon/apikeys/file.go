package apikeys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

const (
	// lockBound is for other commands that hold the lock: each is done in moments.
	lockBound = 10 * time.Second
	lockPause = 20 * time.Millisecond
)

// File is the path of a key file.
type File string

// lock keeps other commands from the file. It is a lock of the directory, as the
// file itself is replaced.
func (f File) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(string(f)))
	if err != nil {
		return nil, fmt.Errorf("cannot write the API keys: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockBound)
	defer cancel()
	for {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { dir.Close() }, nil
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			dir.Close()
			return nil, fmt.Errorf("cannot lock %s, as another command holds it: %w", dir.Name(), err)
		}
	}
}

// change returns the new lines of a key file, given its lines.
type change func(lines []string, keys *auth.Keys) ([]string, error)

// edit changes the lines of the file and returns its new keys, which allow has to
// accept. A file that has had a key stays closed, unless it was opened.
func (f File) edit(change change, allow func(*auth.Keys) error) (*auth.Keys, error) {
	text, _, err := f.Read()
	if err != nil {
		return nil, err
	}
	text, keys, err := revise(text, change, allow)
	if err != nil {
		return nil, err
	}
	return keys, f.write(text)
}

// revise returns the text of a key file after a change, and its keys, which allow has to accept.
func revise(text []byte, change change, allow func(*auth.Keys) error) ([]byte, *auth.Keys, error) {
	keys, err := auth.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	var lines []string
	if len(text) > 0 {
		lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
	had := !keys.Empty()
	if lines, err = change(lines, keys); err != nil {
		return nil, nil, err
	}
	lines = closing(lines, had)
	text = nil
	if len(lines) > 0 {
		text = []byte(strings.Join(lines, "\n") + "\n")
	}
	if err := keys.Replace(string(text)); err != nil {
		return nil, nil, fmt.Errorf("cannot write the API keys: %w", err)
	}
	return text, keys, allow(keys)
}

// closing returns the lines with auth.ClosedLine, if there is a key or was one.
func closing(lines []string, had bool) []string {
	isKey := func(line string) bool { return len(auth.Fields(line)) > 0 && !auth.IsClosedLine(line) }
	if slices.ContainsFunc(lines, auth.IsClosedLine) || !had && !slices.ContainsFunc(lines, isKey) {
		return lines
	}
	return append([]string{auth.ClosedLine()}, lines...)
}

// Keyless describes access while there is no key.
func Keyless(keys control.Keys) string {
	switch {
	case keys.Required:
		return "There is no key, and beyond the loopback one is asked for: nobody is let in until " +
			"codex-proxy keys add NAME makes one."
	case keys.Closed:
		return "There is no key, and nobody is let in without one: codex-proxy keys add NAME makes one, " +
			"and codex-proxy keys open lets programs on this machine in."
	default:
		return "There is no key, and none is asked for: programs on this machine may use the API."
	}
}

// Read returns the text of the file and its keys: none, if there is no file.
func (f File) Read() ([]byte, *auth.Keys, error) {
	text, err := os.ReadFile(string(f))
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, fmt.Errorf("cannot read the API keys: %w", err)
	}
	keys, err := auth.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f, err)
	}
	return text, keys, nil
}

// write replaces the file in one step: a reader sees the old keys or the new
// ones, and a crash loses none. A symbolic link stays a symbolic link.
func (f File) write(text []byte) error {
	if file, err := filepath.EvalSymlinks(string(f)); err == nil {
		f = File(file)
	}
	fresh, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot write the API keys: %w", err)
	}
	err = f.lend(fresh)
	if err == nil {
		_, err = fresh.Write(text)
	}
	if err == nil {
		err = fresh.Sync()
	}
	err = errors.Join(err, fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), string(f))
	}
	if err != nil {
		return fmt.Errorf("cannot write the API keys: %w", errors.Join(err, os.Remove(fresh.Name())))
	}
	return nil
}

// lend gives another file the owner, group and mode of this one, if it is there:
// the service that reads it can still do so.
func (f File) lend(to *os.File) error {
	info, err := os.Stat(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return f.admit(to)
	}
	if err != nil {
		return err
	}
	was := info.Sys().(*syscall.Stat_t)
	if err := to.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return err
	}
	return to.Chmod(info.Mode().Perm())
}

// admit lets the daemon read a new file of root. The daemon receives the default file
// as a credential; without the group, another user runs the daemon.
func (f File) admit(to *os.File) error {
	group, err := user.LookupGroup(paths.User)
	if f == paths.KeyFile || os.Geteuid() != 0 || err != nil {
		return nil
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		return err
	}
	if err := to.Chown(0, gid); err != nil {
		return err
	}
	return to.Chmod(0o640)
}

package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cache is the file with the last known keys: the time of its last change is when the database has had them.
type cache struct {
	path    string
	at      time.Time // of the file
	pending string    // the text that is not in the file yet
}

// cacheEvery is how often the time of the file is renewed: a restart may take its keys for this much older.
const cacheEvery = time.Minute

// keep keeps the text of new keys, or the time of the old ones. A text that cannot be written is tried again with the
// next call, and the file does not get a later time before that.
func (c *cache) keep(text string, at time.Time) (err error) {
	if text != "" {
		c.pending = text
	}
	switch {
	case c.pending != "":
		err = WriteCache(c.path, c.pending, at)
	case at.Sub(c.at) < cacheEvery:
		return nil
	default:
		err = os.Chtimes(c.path, at, at)
	}
	if err == nil {
		c.pending, c.at = "", at
	}
	return err
}

// WriteCache replaces the file in one step, also by root: the daemon can write its directory, so that no name in it is
// followed, and the file gets the owner of the directory.
func WriteCache(path, text string, at time.Time) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = lendToDaemon(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		now := unix.NsecToTimeval(at.UnixNano())
		err = unix.Futimes(int(f.Fd()), []unix.Timeval{now, now})
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// lendToDaemon gives a file of root the owner of its directory.
func lendToDaemon(f *os.File) error {
	dir, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := dir.Sys().(*syscall.Stat_t)
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// hostsLine is the line of the file with the number of hosts: a comment of a key file.
const hostsLine = "# hosts: %d\n"

func withHosts(text string, hosts int) string { return fmt.Sprintf(hostsLine, hosts) + text }

// hostsIn is the number of hosts when the file was written; 0 is not known.
func hostsIn(path string) (hosts int) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscanf(string(text), hostsLine, &hosts); err != nil {
		return 0
	}
	return max(0, hosts)
}

package copies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile = ".lock"
	// again is the interval of tries to lock the store.
	again = 20 * time.Millisecond
)

// makeDirs makes the directories, which all users may read. The package makes them, too.
func makeDirs(s *Store) error {
	for _, dir := range []string{s.Dir, s.Runs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := ours(dir, s.owner); err != nil {
			return fmt.Errorf("%w: chown root:root %s and chmod 755 it", err, dir)
		}
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the umask does not count: all users read it
			return err
		}
	}
	return nil
}

// lock waits until no other process changes the store; ctx bounds the wait.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(s.Dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("another process changes %s: %w", s.Dir, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// writeFile replaces a file that all users may read, in one step and for good.
func writeFile(path string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix+"*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(f.Name(), path), syncDir(filepath.Dir(path)))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

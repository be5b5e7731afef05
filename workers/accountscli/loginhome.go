package accountscli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/internal/paths"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/homelock"
)

// loginHome is a home for one login, next to the worker's home.
type loginHome struct {
	path string
	lock *homelock.Lock
}

// loginHomeOf is the path of the home for a login; no worker has such a name.
func loginHomeOf(worker string) string { return filepath.Join(paths.WorkerHomes, ".login-"+worker) }

// openLoginHome makes the home for a login of the worker, for the user that runs codex. It
// removes the files of a login that was killed. There is one at a time.
func openLoginHome(ctx context.Context, name string, as codexhome.Account) (*loginHome, error) {
	path := loginHomeOf(name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := homelock.Take(ctx, path, holder("login"))
	if err != nil {
		return nil, err
	}
	dir := &loginHome{path, lock}
	if err := errors.Join(dir.empty(), os.Chown(path, int(as.UID), int(as.GID))); err != nil {
		dir.remove()
		return nil, err
	}
	return dir, nil
}

// empty removes everything but the lock.
func (d *loginHome) empty() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == homelock.FileName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.path, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the home and its content.
func (d *loginHome) remove() {
	_ = os.RemoveAll(d.path)
	_ = d.lock.Release()
}

// Package repositories keeps the mirrors of repositories: it has units fetch them, shares fetches, finds the commit of
// a request, and removes unused mirrors.
package repositories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/internal/steady"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/files"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
)

// Config are the settings of mirrors.
type Config struct {
	Count       int           // of all mirrors
	Disk        int64         // bytes of all mirrors
	Size        int64         // bytes of one mirror, and of a bundle
	Timeout     time.Duration // of the fetch of one repository
	Credentials []Credential
	Env         map[string]string // of the sandboxes, for fetches
}

// Settings of Repositories.
type Settings struct {
	Config   Config
	Store    store.Repositories
	Systemd  *systemd.Client
	Files    files.Files
	Logger   *slog.Logger
	Registry prometheus.Registerer // gets the metrics; nil for none
	// Announce has Due called, Trim has Bound called, and Evicted is called when a mirror was removed to make room.
	Announce, Trim func()
	Evicted        func(key string, bytes int64)
}

// Repositories has the repositories of all users. Its methods are safe for concurrent use.
type Repositories struct {
	Settings

	metrics *prometheus.CounterVec // fetches by result
	clock   steady.Clock           // by which repositories are old
	mirrors *mirrors
	fetcher fetcher
}

// New returns Repositories.
func New(s Settings) *Repositories {
	return &Repositories{
		Settings: s, metrics: newMetrics(s.Registry), mirrors: newMirrors(),
		fetcher: fetcher{s.Config, s.Store, s.Systemd, s.Files},
	}
}

// Add returns the repository of a URL or of a local path, which belongs to the owner. Nothing is fetched yet.
func (r *Repositories) Add(ctx context.Context, owner wire.Owner, n wire.NewRepository) (wire.Repository, error) {
	added, err := r.add(ctx, owner, n)
	if err != nil {
		return wire.Repository{}, err
	}
	return r.shown(ctx, added)
}

// add stores a repository. Each user has mirrors of their own, as a credential of one may open a repository that is
// closed to others.
func (r *Repositories) add(ctx context.Context, owner wire.Owner, n wire.NewRepository) (store.Repository, error) {
	if err := checkRepository(n); err != nil {
		return store.Repository{}, err
	}
	added := store.Repository{Owner: owner.UID, URL: n.URL, Path: n.Path, Used: time.Now()}
	added.Key = paths.Key(fmt.Sprintf("%d %s", owner.UID, added.Name()))
	if err := r.Store.Add(ctx, added); err != nil {
		return added, err
	}
	return r.Store.Find(ctx, added.Key)
}

// shown is a repository as the API shows it.
func (r *Repositories) shown(ctx context.Context, of store.Repository) (wire.Repository, error) {
	has, err := r.Store.Commits(ctx, of.Key, mostHas)
	return wire.Repository{Key: of.Key, URL: of.URL, Path: of.Path, Has: has, Fetched: of.Fetched, Bytes: of.Bytes}, err
}

// List returns the repositories of a user that have a mirror.
func (r *Repositories) List(ctx context.Context, owner wire.Owner) (wire.Repositories, error) {
	list := wire.Repositories{Repositories: []wire.Repository{}}
	all, err := r.Store.List(ctx, store.Viewer{UID: owner.UID})
	for _, one := range all {
		if err != nil {
			return list, err
		}
		if one.Fetched.IsZero() {
			continue
		}
		var v wire.Repository
		v, err = r.shown(ctx, one)
		list.Repositories = append(list.Repositories, v)
	}
	return list, err
}

// PutBundle takes commits of a local repository from a bundle, and returns the repository when its mirror has them. A
// bundle that ends early changes nothing.
func (r *Repositories) PutBundle(ctx context.Context, owner wire.Owner, key string,
	from io.Reader) (wire.Repository, error) {
	to, err := r.named(ctx, owner, key)
	if err == nil && to.Path == "" {
		err = wire.Refuse(wire.Conflict, "name a ref of it", "%s has a URL, and is fetched from there", key)
	}
	if err != nil {
		return wire.Repository{}, err
	}
	_, release := r.mirrors.use(to.Key)
	defer release()
	bundle, err := r.receive(to.Key, from)
	if err != nil {
		return wire.Repository{}, err
	}
	defer os.Remove(bundle)
	if _, err := r.fetch(ctx, &fetch{repository: to, owner: owner, bundle: bundle}); err != nil {
		return wire.Repository{}, err
	}
	if to, err = r.Store.Find(ctx, to.Key); err != nil {
		return wire.Repository{}, err
	}
	return r.shown(ctx, to)
}

// receive writes a bundle to a file, and returns its path.
func (r *Repositories) receive(key string, from io.Reader) (path string, err error) {
	dir := r.fetcher.dir(key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot keep the bundle: %w", err)
	}
	file, err := os.CreateTemp(dir, "upload-")
	if err != nil {
		return "", fmt.Errorf("cannot keep the bundle: %w", err)
	}
	size, err := io.Copy(file, io.LimitReader(from, r.Config.Size+1))
	switch closed := file.Close(); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = wire.Refuse(wire.InvalidRequest, "send it again", "the bundle ends early")
	case err != nil || closed != nil:
		err = fmt.Errorf("cannot keep the bundle: %w", errors.Join(err, closed))
	case size > r.Config.Size:
		err = wire.Refuse(wire.TooLarge, "ask an administrator to raise size under [repositories] in runner.toml",
			"the bundle has more than %d bytes", r.Config.Size)
	}
	if err != nil {
		os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

// named returns the repository of a user with that key or URL. A missing one is made from the URL.
func (r *Repositories) named(ctx context.Context, owner wire.Owner, name string) (store.Repository, error) {
	if paths.CheckKey(name) != nil {
		return r.add(ctx, owner, wire.NewRepository{URL: name})
	}
	found, err := r.Store.Find(ctx, name)
	if errors.Is(err, store.ErrNotFound) || err == nil && found.Owner != owner.UID {
		err = wire.Refuse(wire.NotFound, "add it by its URL or path", "there is no repository %s of yours", name)
	}
	return found, err
}

// Clear removes the credentials and uploads that fetches of an earlier daemon have left.
func (r *Repositories) Clear() { r.fetcher.clear() }

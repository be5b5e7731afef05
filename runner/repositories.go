package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/workspace"
)

// Repositories are the settings of mirrors.
type Repositories struct {
	Count       int           // of all mirrors
	Disk        int64         // bytes of all mirrors
	Size        int64         // bytes of one mirror, and of a bundle
	Timeout     time.Duration // of the fetch of one repository
	Credentials []Credential
}

const (
	// mostHas bounds Repository.Has: older commits are behind these, as a rule.
	mostHas = 64
	// longestName bounds a URL, a path and a ref, in bytes.
	longestName = 4096
)

// AddRepository returns the repository of a URL or of a local path, which belongs to the owner. Nothing is fetched yet.
func (r *Runner) AddRepository(ctx context.Context, owner wire.Owner, n wire.NewRepository) (wire.Repository, error) {
	added, err := r.add(ctx, owner, n)
	if err != nil {
		return wire.Repository{}, err
	}
	return r.shown(ctx, added)
}

// add stores a repository. Each user has mirrors of their own, as a credential of one may open a repository that is
// closed to others.
func (r *Runner) add(ctx context.Context, owner wire.Owner, n wire.NewRepository) (store.Repository, error) {
	if err := checkRepository(n); err != nil {
		return store.Repository{}, err
	}
	added := store.Repository{Owner: owner.UID, URL: n.URL, Path: n.Path, Used: time.Now()}
	added.Key = paths.Key(fmt.Sprintf("%d %s", owner.UID, added.Name()))
	if err := r.Store.AddRepository(ctx, added); err != nil {
		return added, err
	}
	return r.Store.Repository(ctx, added.Key)
}

func checkRepository(n wire.NewRepository) error {
	switch {
	case n.URL == "" && n.Path == "":
		return refuse(wire.InvalidRequest, "name its url or its path", "the repository has no name")
	case len(n.URL) > longestName || len(n.Path) > longestName:
		return refuse(wire.InvalidRequest, fmt.Sprintf("use at most %d bytes", longestName),
			"the name of the repository is too long")
	case n.Path != "" && (!filepath.IsAbs(n.Path) || filepath.Clean(n.Path) != n.Path ||
		strings.ContainsRune(n.Path, 0)):
		return refuse(wire.InvalidRequest, "use an absolute path without . and ..", "path is %q", n.Path)
	}
	if n.URL == "" {
		return nil
	}
	return checkURL(n.URL)
}

// checkURL accepts the URLs of workspace.CheckURL, less file URLs: the service would read these as a user of its own,
// while the user that may read a local repository sends bundles of it.
func checkURL(address string) error {
	if err := workspace.CheckURL(address); err != nil {
		return invalidURL(err)
	}
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" {
		return refuse(wire.InvalidRequest, "name the directory: codex-runner run --repo "+u.Path,
			"the service fetches no file URL")
	}
	if workspace.Climbs(address) { // it would leave the URL of a credential
		return refuse(wire.InvalidRequest, "write it without ..", "the URL %s leaves a directory", address)
	}
	return nil
}

func invalidURL(err error) error {
	message, remedy, _ := strings.Cut(err.Error(), "; ")
	return refuse(wire.InvalidRequest, remedy, "%s", message)
}

// shown is a repository as the API shows it.
func (r *Runner) shown(ctx context.Context, of store.Repository) (wire.Repository, error) {
	has, err := r.Store.Commits(ctx, of.Key, mostHas)
	return wire.Repository{Key: of.Key, URL: of.URL, Path: of.Path, Has: has, Fetched: of.Fetched, Bytes: of.Bytes}, err
}

// ListRepositories returns the repositories of a user that have a mirror.
func (r *Runner) ListRepositories(ctx context.Context, owner wire.Owner) (wire.Repositories, error) {
	list := wire.Repositories{Repositories: []wire.Repository{}}
	all, err := r.Store.Repositories(ctx, store.Viewer{UID: owner.UID})
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
func (r *Runner) PutBundle(ctx context.Context, owner wire.Owner, key string, from io.Reader) (wire.Repository, error) {
	to, err := r.named(ctx, owner, key)
	if err == nil && to.Path == "" {
		err = refuse(wire.Conflict, "name a ref of it", "%s has a URL, and is fetched from there", key)
	}
	if err != nil {
		return wire.Repository{}, err
	}
	_, release := r.use(to.Key)
	defer release()
	bundle, err := r.receive(to.Key, from)
	if err != nil {
		return wire.Repository{}, err
	}
	defer os.Remove(bundle)
	if _, err := r.fetch(ctx, &fetch{repository: to, owner: owner, bundle: bundle}); err != nil {
		return wire.Repository{}, err
	}
	if to, err = r.Store.Repository(ctx, to.Key); err != nil {
		return wire.Repository{}, err
	}
	return r.shown(ctx, to)
}

// receive writes a bundle to a file, and returns its path.
func (r *Runner) receive(key string, from io.Reader) (path string, err error) {
	dir := r.repositoryDir(key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot keep the bundle: %w", err)
	}
	file, err := os.CreateTemp(dir, "upload-")
	if err != nil {
		return "", fmt.Errorf("cannot keep the bundle: %w", err)
	}
	size, err := io.Copy(file, io.LimitReader(from, r.Repositories.Size+1))
	switch closed := file.Close(); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = refuse(wire.InvalidRequest, "send it again", "the bundle ends early")
	case err != nil || closed != nil:
		err = fmt.Errorf("cannot keep the bundle: %w", errors.Join(err, closed))
	case size > r.Repositories.Size:
		err = refuse(wire.TooLarge, "ask an administrator to raise size under [repositories] in runner.toml",
			"the bundle has more than %d bytes", r.Repositories.Size)
	}
	if err != nil {
		os.Remove(file.Name())
		return "", err
	}
	return file.Name(), nil
}

func (r *Runner) repositoryDir(key string) string {
	return filepath.Join(r.StateDir, paths.RepositoryDir(key))
}

// named returns the repository of a user with that key or URL. A missing one is made from the URL.
func (r *Runner) named(ctx context.Context, owner wire.Owner, name string) (store.Repository, error) {
	if paths.CheckKey(name) != nil {
		return r.add(ctx, owner, wire.NewRepository{URL: name})
	}
	found, err := r.Store.Repository(ctx, name)
	if errors.Is(err, store.ErrNotFound) || err == nil && found.Owner != owner.UID {
		err = refuse(wire.NotFound, "add it by its URL or path", "there is no repository %s of yours", name)
	}
	return found, err
}

// source is the origin of the workspace of a session. The zero source is an empty workspace.
type source struct {
	repository store.Repository
	ref        string
	commit     string // of the ref at this time
}

// fullCommit matches the whole name of a commit, which never changes its meaning.
var fullCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// resolve finds the commit of a request. A commit that the mirror is known to have needs no fetch, and everything else
// does, as the origin may have changed. The mirror stays until the caller calls release, or has a session that uses it.
func (r *Runner) resolve(ctx context.Context, owner wire.Owner,
	n wire.NewSession) (s source, release func(), err error) {
	release = func() {}
	if n.Repository == "" {
		return s, release, nil
	}
	s.ref = n.Ref
	if s.repository, err = r.named(ctx, owner, n.Repository); err != nil {
		return s, release, err
	}
	going, release := r.use(s.repository.Key)
	if !going && fullCommit.MatchString(n.Ref) {
		if known, err := r.Store.Knows(ctx, s.repository.Key, n.Ref); err == nil && known {
			s.commit = n.Ref
			return s, release, nil
		}
	}
	s.commit, err = r.fetch(ctx, &fetch{repository: s.repository, owner: owner, ref: n.Ref})
	if err != nil {
		release()
	}
	return s, release, err
}

// text is the source for people.
func (s source) text(patch string) string {
	if s.commit == "" {
		return "empty"
	}
	text := s.repository.Name()
	if s.ref != "" && s.ref != s.commit {
		text += " at " + s.ref
	}
	if patch != "" {
		text += " with the patch " + patch
	}
	return text
}

// furnish adds the workspace to the specification of a command, which then gets the patch of its session as well. A
// command after the first finds the workspace as it is.
func (r *Runner) furnish(c store.Live, spec *session.Spec) {
	spec.Repository = c.Repository
	if !r.settled(c.Session, c.Number) {
		spec.Workspace = &session.Workspace{URL: c.URL, Commit: c.Commit}
	}
}

// examine forgets the mirror of a command that found it damaged, so that the next fetch makes it anew.
func (r *Runner) examine(ctx context.Context, c *run) {
	result, err := read(r.file(c.Session, c.Number, paths.Result), session.ReadResult)
	if err != nil || result == nil || result.Failure == nil || !result.Failure.Mirror {
		return
	}
	full, err := r.Store.Command(ctx, c.Session, c.Number)
	if err == nil {
		err = r.Store.Damaged(ctx, full.Repository)
	}
	if err != nil {
		r.Logger.Error("cannot record that a mirror is damaged", "repository", full.Repository, "error", err)
		return
	}
	r.Logger.Warn("a mirror seems to be damaged: the next session of its repository makes it anew",
		"repository", full.Repository, "session", c.Session, "error", result.Failure.Text)
}

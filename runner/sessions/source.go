package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/runner/client"
	"codex-proxy/runner/workspace"
	"codex-proxy/runner/worktree"
)

// remote matches the URLs of git: a scheme, or HOST:PATH, without a slash before the colon (git-clone(1)).
var remote = lazyregexp.New(`^([a-z][a-z0-9+.-]*://|[^/:]+:)`)

// Source is the repository of a new session, as a caller names it.
type Source struct {
	Client *client.Client
	Name   string // of the parameter, for errors
	Where  string // a URL or a directory
	Ref    string // "" for HEAD
	// Changes of a directory that are not committed are sent, too.
	Changes Changes
}

// Found is a Source as the API takes it.
type Found struct {
	Repository, Ref string
	// Dir is the top directory of a local repository, "" for a URL.
	Dir string
	// Within is the directory below Dir that was named, relative to it, "" for Dir.
	Within string
	// Base is the commit of the local repository, "" if it has none yet.
	Base string
	// Snapshot has the changes that Ref has in addition to Base; nil if none were taken.
	Snapshot *worktree.Snapshot
}

// Send finds the repository. The commits of a local one are sent as this user: the daemon may not read the files.
func (s Source) Send(ctx context.Context) (Found, error) {
	info, err := os.Stat(s.Where)
	switch {
	case err != nil && remote.MatchString(s.Where):
		return s.url()
	case err != nil:
		return Found{}, fmt.Errorf("%s %s is neither a URL nor a directory: %w", s.Name, s.Where, err)
	case !info.IsDir():
		return Found{}, fmt.Errorf("%s %s is a file: name the top directory of a repository", s.Name, s.Where)
	}
	dir, err := realPath(s.Where)
	if err != nil {
		return Found{}, err
	}
	top, err := workspace.Top(dir)
	if err != nil {
		return Found{}, fmt.Errorf("%s %s: %w", s.Name, s.Where, err)
	}
	return s.local(ctx, top, dir)
}

// url finds the repository of a URL, which the daemon fetches.
func (s Source) url() (Found, error) {
	if s.Changes == ChangesTaken {
		return Found{}, fmt.Errorf("%s %s is a URL: %w", s.Name, s.Where, ErrNoTree)
	}
	return Found{Repository: s.Where, Ref: s.Ref}, nil
}

// shallowMark follows the path in the name of a local repository without its whole history.
const shallowMark = " (shallow "

// mirrorPath names a local repository to the service. One without its whole history has a mirror of its own: others
// would expect the missing commits there.
func mirrorPath(ctx context.Context, top string) (string, error) {
	boundary, err := workspace.Boundary(ctx, top)
	if boundary != "" {
		return top + shallowMark + boundary + ")", err
	}
	return top, err
}

// Changed reports whether a local repository has changes that no commit has. It is false if they cannot be looked for.
func (f Found) Changed(ctx context.Context) bool {
	if f.Dir == "" {
		return false
	}
	changed, err := workspace.Changed(ctx, f.Dir)
	return err == nil && changed
}

// LFS reports whether the workspace gets pointers of Git LFS in place of files.
func (f Found) LFS(ctx context.Context) bool {
	return f.Base != "" && workspace.HasLFS(ctx, workspace.Local{Dir: f.Dir, Commit: f.Base})
}

// unresolved is the error about a ref, or about a directory that is no repository.
func (s Source) unresolved(err error) error {
	unknown, ok := errors.AsType[*workspace.UnknownRefError](err)
	if ok && unknown.Ref == "" {
		return fmt.Errorf("%s %s has no commit yet: commit its files, or take them along with --dirty", s.Name, s.Where)
	}
	if ok {
		return fmt.Errorf("%s %s: %w", s.Name, s.Where, err)
	}
	return fmt.Errorf("%s %s is no git repository that this user can read: name its top directory (%w)", s.Name,
		s.Where, err)
}

func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// gitDir is the git directory of a repository with the top directory dir, or dir itself if it is bare.
func gitDir(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return filepath.Join(dir, ".git")
	}
	return dir
}

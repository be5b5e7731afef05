package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/workspace"
)

// remote matches the URLs of git: a scheme, or HOST:PATH, without a slash before the colon (git-clone(1)).
var remote = regexp.MustCompile(`^([a-z][a-z0-9+.-]*://|[^/:]+:)`)

// Source is the repository of a new session, as a caller names it.
type Source struct {
	Client *client.Client
	Name   string // of the parameter, for errors
	Where  string // a URL or a directory
	Ref    string // "" for HEAD
}

// Found is a Source as the API takes it.
type Found struct {
	Repository, Ref string
	// Dir is the directory of a local repository, "" for a URL.
	Dir string
}

// Send finds the repository. The commits of a local one are sent as this user: the daemon may not read the files.
func (s Source) Send(ctx context.Context) (Found, error) {
	info, err := os.Stat(s.Where)
	switch {
	case err != nil && remote.MatchString(s.Where):
		return Found{Repository: s.Where, Ref: s.Ref}, nil
	case err != nil:
		return Found{}, fmt.Errorf("%s %s is neither a URL nor a directory: %w", s.Name, s.Where, err)
	case !info.IsDir():
		return Found{}, fmt.Errorf("%s %s is a file: name the top directory of a repository", s.Name, s.Where)
	}
	dir, err := realPath(s.Where)
	if err != nil {
		return Found{}, err
	}
	commit, err := workspace.Resolve(ctx, gitDir(dir), s.Ref)
	if err != nil {
		return Found{}, s.unresolved(err)
	}
	repository, err := s.Client.AddRepository(ctx, wire.NewRepository{Path: dir, URL: workspace.Origin(ctx, gitDir(dir))})
	if err != nil {
		return Found{}, err
	}
	if !slices.Contains(repository.Has, commit) {
		if err := s.sendBundle(ctx, repository, dir, commit); err != nil {
			return Found{}, fmt.Errorf("cannot send %s %s: %w", s.Name, s.Where, err)
		}
	}
	return Found{Repository: repository.Key, Ref: commit, Dir: dir}, nil
}

// Changed reports whether a local repository has changes that no commit has. It is false if they cannot be looked for.
func (f Found) Changed(ctx context.Context) bool {
	if f.Dir == "" {
		return false
	}
	changed, err := workspace.Changed(ctx, f.Dir)
	return err == nil && changed
}

// unresolved is the error about a ref, or about a directory that is no repository.
func (s Source) unresolved(err error) error {
	if _, ok := errors.AsType[*workspace.UnknownRefError](err); ok {
		return fmt.Errorf("%s %s: %w", s.Name, s.Where, err)
	}
	return fmt.Errorf("%s %s is no git repository that this user can read: name its top directory (%w)", s.Name, s.Where, err)
}

// sendBundle sends the history of a commit that the daemon does not have, while git packs it.
func (s Source) sendBundle(ctx context.Context, to wire.Repository, dir, commit string) error {
	pipe, packed := io.Pipe()
	var all errgroup.Group
	var packing error
	all.Go(func() error {
		packing = workspace.WriteBundle(ctx, dir, commit, to.Has, packed)
		_ = packed.CloseWithError(packing) // it returns nil always
		return nil
	})
	_, err := s.Client.PutBundle(ctx, to.Key, pipe)
	_ = pipe.Close() // it always returns nil, too
	_ = all.Wait()
	switch {
	case errors.Is(packing, workspace.ErrNothingNew):
		return nil
	case packing != nil && !errors.Is(packing, io.ErrClosedPipe):
		return packing
	}
	return err
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

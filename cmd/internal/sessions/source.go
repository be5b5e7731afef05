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
	"codex-proxy/runner/workspace"
)

// remote matches what git takes for a URL: a scheme, or HOST:PATH, without a slash before the colon (git-clone(1)).
var remote = regexp.MustCompile(`^([a-z][a-z0-9+.-]*://|[^/:]+:)`)

// send makes the source the repository of the new session. The commits of a local repository are sent as this user: the
// daemon may not read the files.
func (r *Run) send(ctx context.Context) error {
	info, err := os.Stat(r.Source)
	switch {
	case err != nil && remote.MatchString(r.Source):
		r.New.Repository = r.Source
		return nil
	case err != nil:
		return fmt.Errorf("--repo %s is neither a URL nor a directory: %w", r.Source, err)
	case !info.IsDir():
		return fmt.Errorf("--repo %s is a file: name the top directory of a repository", r.Source)
	}
	dir, err := realPath(r.Source)
	if err != nil {
		return err
	}
	commit, err := workspace.Resolve(ctx, gitDir(dir), r.New.Ref)
	if err != nil {
		return r.unresolved(err)
	}
	if r.New.Ref == "" && r.New.Patch == "" {
		r.note(ctx, dir)
	}
	repository, err := r.Client.AddRepository(ctx, wire.NewRepository{Path: dir})
	if err != nil {
		return err
	}
	if !slices.Contains(repository.Has, commit) {
		if err := r.sendBundle(ctx, repository, dir, commit); err != nil {
			return fmt.Errorf("cannot send --repo %s: %w", r.Source, err)
		}
	}
	r.New.Repository, r.New.Ref = repository.Key, commit
	return nil
}

// note reports changes that the command does not see. It is no error if they cannot be looked for.
func (r *Run) note(ctx context.Context, dir string) {
	if changed, err := workspace.Changed(ctx, dir); err == nil && changed {
		fmt.Fprintf(r.Stderr, "--repo %s has changes that are not committed, and the command runs without them "+
			"(git diff HEAD | codex-runner run --patch - has those of known files)\n", r.Source)
	}
}

// unresolved is the error about a ref, or about a directory that is no repository.
func (r *Run) unresolved(err error) error {
	if _, ok := errors.AsType[*workspace.UnknownRefError](err); ok {
		return fmt.Errorf("--repo %s: %w", r.Source, err)
	}
	return fmt.Errorf("--repo %s is no git repository that this user can read: name its top directory (%w)", r.Source, err)
}

// sendBundle sends what the daemon does not have of a commit, while git packs it.
func (r *Run) sendBundle(ctx context.Context, to wire.Repository, dir, commit string) error {
	pipe, packed := io.Pipe()
	var all errgroup.Group
	var packing error
	all.Go(func() error {
		packing = workspace.WriteBundle(ctx, dir, commit, to.Has, packed)
		_ = packed.CloseWithError(packing) // it returns nil always
		return nil
	})
	_, err := r.Client.PutBundle(ctx, to.Key, pipe)
	_ = pipe.Close() // likewise
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

// gitDir is that of a repository with the top directory dir, or dir itself, of a bare one.
func gitDir(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		return filepath.Join(dir, ".git")
	}
	return dir
}

package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/workspace"
)

// maxModules is how many repositories a fetch may bring, as many as a workspace may have.
const maxModules = 256

// Fetch is the order to bring the mirrors of a repository and all its submodules up to date, and to find the commit of
// a ref.
type Fetch struct {
	Version int    `json:"version"`
	ID      string `json:"id"`  // of this order: its result has it, too
	URL     string `json:"url"` // of a local repository: where relative URLs of submodules begin, or ""
	Ref     string `json:"ref"` // "" is the default branch, or the commit of the bundle
	// Credential is the URL of the credential that is lent, or "". Submodules with other URLs are fetched without one.
	Credential string `json:"credential,omitempty"`
	// Local marks a repository of which clients send bundles. Without a bundle, the mirror resolves Ref.
	Local bool `json:"local,omitempty"`
	// Anew removes the mirrors first, as one of them is damaged.
	Anew bool `json:"anew,omitempty"`
	// Env has the variables of the settings, as Env of workspace.Mirror.
	Env map[string]string `json:"env,omitempty"`
	// Time bounds the fetch of each repository, in nanoseconds, and Bytes its size on the disk.
	Time  time.Duration `json:"time_ns"`
	Bytes int64         `json:"bytes"`
}

// Fetched is the result of a Fetch.
type Fetched struct {
	Version int      `json:"version"`
	ID      string   `json:"id"` // of the order
	Failure *Failure `json:"failure,omitempty"`
	Commit  string   `json:"commit,omitempty"` // of Ref
	Tags    string   `json:"tags,omitempty"`   // of a local repository, as workspace.Tags names them
	Bytes   int64    `json:"bytes"`            // of all mirrors, on the disk
	// Plain reports that no file of Commit is one that a set-up follows from.
	Plain bool `json:"plain,omitempty"`
}

// Run fetches into the directory dir, the state of the repository. It reads the repository from the bundle, if there is
// one, and not from its URL. credentials is Credentials of workspace.Mirror. An error means that there is no result.
func (f Fetch) Run(ctx context.Context, files Files, dir, credentials string) error {
	if err := files.check(); err != nil {
		return err
	}
	err := files.order(&f)
	result := Fetched{Version: Version, ID: f.ID}
	if err == nil {
		err = checkVersion(f.Version)
	}
	if err == nil && f.Anew {
		err = errors.Join(os.RemoveAll(filepath.Join(dir, paths.Mirror)),
			os.RemoveAll(filepath.Join(dir, paths.Modules)))
	}
	if err == nil {
		result.Commit, err = f.fetch(ctx, files[paths.BundleFile], dir, credentials)
	}
	if err == nil && f.Local {
		result.Tags, err = workspace.Tags(ctx, filepath.Join(dir, paths.Mirror))
	}
	if err == nil {
		var fits bool
		fits, err = workspace.MayHaveFile(ctx, filepath.Join(dir, paths.Mirror), result.Commit, setup.Fits)
		result.Plain = !fits
	}
	if err == nil {
		result.Bytes, err = workspace.Size(dir)
	}
	code := Failed
	if _, unknown := errors.AsType[*workspace.UnknownRefError](err); unknown {
		code = UnknownRef
	}
	result.Failure = failure(err, code)
	return files.report(&result)
}

// fetch returns the commit.
func (f Fetch) fetch(ctx context.Context, bundle *os.File, dir, credentials string) (string, error) {
	mirror := workspace.Mirror{
		Dir: filepath.Join(dir, paths.Mirror), URL: f.URL, Time: f.Time, Bytes: f.Bytes,
		Credentials: credentials, Lent: f.Credential, Env: f.Env,
	}
	err := error(nil)
	switch {
	case bundle != nil:
		err = unbundle(ctx, mirror, bundle, filepath.Join(dir, paths.Bundle))
	case !f.Local:
		err = mirror.Fetch(ctx)
	}
	if err != nil {
		return "", err
	}
	commit, err := workspace.Resolve(ctx, mirror.Dir, f.Ref)
	if err != nil {
		return "", err
	}
	m := modules{dir: dir, like: mirror, seen: map[workspace.Submodule]bool{}}
	return commit, m.fetch(ctx, mirror.Dir, f.URL, commit)
}

// unbundle copies the bundle to path meanwhile, as git opens it by its name, which this process may not.
func unbundle(ctx context.Context, mirror workspace.Mirror, bundle *os.File, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	_, err = io.Copy(file, bundle)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("cannot copy the bundle: %w", err)
	}
	return mirror.FetchBundle(ctx, path)
}

// modules fetches submodules of any depth.
type modules struct {
	dir  string
	like workspace.Mirror // with the bounds and the credentials
	seen map[workspace.Submodule]bool
}

// fetch fetches the submodules of a commit, less the ones with a commit that is there.
func (m modules) fetch(ctx context.Context, mirror, url, commit string) error {
	all, err := workspace.Submodules(ctx, mirror, url, commit)
	if err != nil {
		return err
	}
	for _, sub := range all {
		if m.seen[sub] {
			continue
		}
		if m.seen[sub] = true; len(m.seen) > maxModules {
			return fmt.Errorf("the repository has more than %d submodules: leave some out of .gitmodules", maxModules)
		}
		if err := m.one(ctx, sub); err != nil {
			return &workspace.SubmoduleError{Path: sub.Path, URL: sub.URL, Err: err}
		}
	}
	return nil
}

func (m modules) one(ctx context.Context, sub workspace.Submodule) error {
	to := m.like
	to.URL, to.Dir = sub.URL, filepath.Join(m.dir, paths.ModuleMirror(sub.URL))
	if err := os.MkdirAll(filepath.Dir(to.Dir), 0o755); err != nil {
		return err
	}
	if _, err := workspace.Resolve(ctx, to.Dir, sub.Commit); err != nil {
		if err := to.Fetch(ctx); err != nil {
			return err
		}
	}
	return m.fetch(ctx, to.Dir, sub.URL, sub.Commit)
}

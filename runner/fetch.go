package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// maxFetches bounds the units that fetch at the same time.
const maxFetches = 8

// fetch is an order to bring a mirror up to date. Requests wait for it; its unit does not depend on them.
type fetch struct {
	repository store.Repository
	owner      wire.Owner
	ref        string
	bundle     string // path of a bundle, or ""

	begun    bool // guarded by Runner.mu, as the next one
	requests int
	done     chan struct{} // closed when the next two are there
	commit   string        // of ref
	err      error
}

// mirror is the state of a repository in use that the store does not have.
type mirror struct {
	holds int  // of requests: it is not removed meanwhile
	busy  bool // a unit fetches or removes it
	going bool // it is about to be removed, also if a request holds it
}

// use keeps a mirror from being removed until release is called, which may be called again. It may be about to be
// removed already: a fetch makes it anew then.
func (r *Runner) use(key string) (going bool, release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.state.mirror(key)
	held.holds++
	return held.going, sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		held.holds--
		r.state.drop(key)
	})
}

func (s *state) mirror(key string) *mirror {
	if s.mirrors[key] == nil {
		s.mirrors[key] = &mirror{}
	}
	return s.mirrors[key]
}

// drop forgets a mirror that is not in use.
func (s *state) drop(key string) {
	if m := s.mirrors[key]; m != nil && *m == (mirror{}) {
		delete(s.mirrors, key)
	}
}

// fetch has Run fetch, and returns the commit that the ref means then. Requests for the same ref that wait share one
// fetch; none shares a fetch that has begun, as the origin may have changed since. If ctx ends, a fetch that has begun
// goes on.
func (r *Runner) fetch(ctx context.Context, f *fetch) (commit string, err error) {
	r.mu.Lock()
	f = r.state.share(f)
	f.requests++
	r.state.change(r.wake)
	r.mu.Unlock()
	select {
	case <-f.done:
		return f.commit, f.err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		if f.requests--; f.requests == 0 && !f.begun {
			r.state.fetches = slices.DeleteFunc(r.state.fetches, func(other *fetch) bool { return other == f })
		}
		return "", context.Cause(ctx)
	}
}

// share returns a waiting fetch of the same repository and ref, both without a bundle, or else queues f.
func (s *state) share(f *fetch) *fetch {
	for _, other := range s.fetches {
		if other.repository.Key == f.repository.Key && other.ref == f.ref && other.bundle == "" && f.bundle == "" {
			return other
		}
	}
	f.done = make(chan struct{})
	s.fetches = append(s.fetches, f)
	return f
}

// nextFetch takes a fetch from those that wait, or returns nil.
func (r *Runner) nextFetch() *fetch {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	if s.fetching == maxFetches {
		return nil
	}
	i := slices.IndexFunc(s.fetches, func(f *fetch) bool {
		return s.mirrors[f.repository.Key] == nil ||
			!s.mirrors[f.repository.Key].busy
	})
	if i < 0 {
		return nil
	}
	f := s.fetches[i]
	s.fetches = slices.Delete(s.fetches, i, i+1)
	f.begun, s.mirror(f.repository.Key).busy = true, true
	s.fetching++
	return f
}

// bring runs a fetch and answers the requests that wait for it.
func (r *Runner) bring(ctx context.Context, f *fetch) {
	began := time.Now()
	f.commit, f.err = r.order(ctx, f)
	refused, ok := errors.AsType[*wire.Error](f.err)
	switch failure := f.err; {
	case ctx.Err() != nil:
		f.err = refuse(wire.Unavailable, "try again", "the service stops")
	case ok && refused.Code == wire.UnknownRef:
		failure = nil // of the fetch
		fallthrough
	default:
		r.recordFetch(f.repository.Key, f.repository.Name(), time.Since(began), failure)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.fetching--
	r.state.mirror(f.repository.Key).busy = false
	r.state.drop(f.repository.Key)
	close(f.done)
	r.state.change(r.wake)
	r.tidy()
}

// order writes the order of a fetch, has the unit of the repository do it, and stores its result.
func (r *Runner) order(ctx context.Context, f *fetch) (commit string, err error) {
	err = r.Store.AddRepository(ctx, f.repository) // it may have been removed since
	var to store.Repository
	if err == nil {
		to, err = r.Store.Repository(ctx, f.repository.Key)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}
	if to.Path != "" && to.Fetched.IsZero() && f.bundle == "" {
		return "", refuse(wire.RepositoryFailed, "send its commits in a bundle first, as codex-runner run does",
			"the service has no commits of %s", to.Path)
	}
	if err := r.place(to.Key, f.bundle); err != nil {
		return "", err
	}
	defer os.Remove(filepath.Join(r.repositoryDir(to.Key), paths.Bundle))
	credential := r.Repositories.credential(to.URL, f.owner)
	if err := r.lend(to.Key, credential); err != nil {
		return "", err
	}
	defer r.takeBack(to.Key)
	fetched, err := r.runFetch(ctx, to.Key, job.Fetch{
		Version: job.Version, ID: rand.Text(), URL: to.URL, Ref: f.ref, Credential: credential.URL,
		Local: to.Path != "", Anew: to.Damaged, Time: r.Repositories.Timeout, Bytes: r.Repositories.Size,
	})
	if err != nil {
		return "", err
	}
	if fetched.Failure != nil {
		return "", failureOf(to, fetched.Failure)
	}
	return fetched.Commit, r.Store.Fetched(ctx, to.Key, fetched.Commit, fetched.Bytes, time.Now())
}

// place makes the directory of a job, with its bundle.
func (r *Runner) place(key, bundle string) error {
	dir := r.repositoryDir(key)
	err := os.MkdirAll(dir, 0o700)
	to := filepath.Join(dir, paths.Bundle)
	switch {
	case err == nil && bundle != "":
		err = os.Rename(bundle, to)
	case err == nil:
		if err = os.Remove(to); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write the order of a fetch: %w", err)
	}
	return nil
}

// runFetch runs the unit of the repository. A unit of an earlier daemon may still run; its result has another ID.
func (r *Runner) runFetch(ctx context.Context, key string, order job.Fetch) (*job.Fetched, error) {
	text, err := json.Marshal(order)
	if err == nil {
		err = replace(filepath.Join(r.repositoryDir(key), paths.Order), text)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write the order of a fetch: %w", err)
	}
	unit := paths.RepositoryUnit(key)
	for range 2 {
		err = r.startJob(ctx, unit)
		fetched, readErr := read(filepath.Join(r.repositoryDir(key), paths.Result), job.Read[job.Fetched])
		if readErr != nil {
			return nil, readErr
		}
		if fetched != nil && fetched.ID == order.ID {
			return fetched, nil
		}
	}
	reason := "it was killed"
	if err != nil {
		reason = err.Error()
	}
	return nil, refuse(wire.Unavailable, "try again; journalctl -u "+unit+" has more",
		"the fetch of the repository has no result: %s", reason)
}

// redirected is git's report of a redirection that it does not follow, but for the last digit of the status.
const redirected = "The requested URL returned error: 30"

// failureOf is the error of a request after its fetch has failed. The text has git's own words.
func failureOf(of store.Repository, f *job.Failure) error {
	if f.Code == job.UnknownRef {
		at := strings.LastIndex(f.Text, ": ")
		return refuse(wire.UnknownRef, f.Text[at+2:], "%s: %s", of.Name(), f.Text[:max(at, 0)])
	}
	remedy := "see that the URL is right, that this host reaches it, and that runner.toml has a credential for it ([[credentials]])"
	if of.Path != "" {
		remedy = "see that `git fsck` finds no fault in it, and that this host reaches the repositories of its submodules"
	}
	if strings.Contains(f.Text, redirected) {
		remedy = "write the URL that the server redirects to (GitLab's ends in .git), as a fetch with a credential follows no redirection"
	}
	return refuse(wire.RepositoryFailed, remedy, "%s cannot be fetched: %s", of.Name(), f.Text)
}

// clearFetches removes the credentials and uploads that fetches of an earlier daemon have left.
func (r *Runner) clearFetches() {
	os.RemoveAll(filepath.Join(r.RuntimeDir, filepath.Base(paths.RepositoryCredentials)))
	uploads, _ := filepath.Glob(filepath.Join(r.repositoryDir("*"), "upload-*"))
	for _, path := range uploads {
		os.Remove(path)
	}
}

package repositories

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/files"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
)

// fetcher has units fetch repositories. It needs no lock: one unit at a time works on a mirror.
type fetcher struct {
	config  Config
	store   store.Repositories
	systemd *systemd.Client
	files   files.Files
}

// dir has the files of the last fetch of a repository.
func (f fetcher) dir(key string) string {
	return filepath.Join(f.files.StateDir, paths.RepositoryDir(key))
}

// lent has the credential that root gives to the unit of the repository.
func (f fetcher) lent(key string) string {
	return filepath.Join(f.files.RuntimeDir, filepath.Base(paths.RepositoryCredentials), key)
}

// fetch writes the order of a fetch, has the unit of the repository do it, and stores its result.
func (f fetcher) fetch(ctx context.Context, of *fetch) (commit string, err error) {
	err = f.store.Add(ctx, of.repository) // it may have been removed since
	var to store.Repository
	if err == nil {
		to, err = f.store.Find(ctx, of.repository.Key)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}
	if to.Path != "" && to.Fetched.IsZero() && of.bundle == "" {
		return "", wire.Refuse(wire.RepositoryFailed, "send its commits in a bundle first, as codex-runner run does",
			"the service has no commits of %s", to.Path)
	}
	if err := f.place(to.Key, of.bundle); err != nil {
		return "", err
	}
	defer os.Remove(filepath.Join(f.dir(to.Key), paths.Bundle))
	credential := f.config.credential(to.URL, of.owner)
	if err := f.lend(to.Key, credential); err != nil {
		return "", err
	}
	defer f.takeBack(to.Key)
	fetched, err := f.runUnit(ctx, to.Key, job.Fetch{
		Version: job.Version, ID: rand.Text(), URL: to.URL, Ref: of.ref, Credential: credential.URL,
		Local: to.Path != "", Anew: to.Damaged, Env: f.config.Env, Time: f.config.Timeout, Bytes: f.config.Size,
	})
	if err != nil {
		return "", err
	}
	if fetched.Failure != nil {
		return "", failureOf(to, fetched.Failure)
	}
	err = f.store.Fetched(ctx, to.Key, fetched.Commit, fetched.Bytes, time.Now())
	if err == nil && to.Path != "" {
		err = f.store.Fetched(ctx, to.Key, wire.TagsMark+fetched.Tags, fetched.Bytes, time.Now())
	}
	return fetched.Commit, err
}

// place makes the directory of a job, with its bundle.
func (f fetcher) place(key, bundle string) error {
	dir := f.dir(key)
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

// runUnit runs the unit of the repository. A unit of an earlier daemon may still run; its result has another ID.
func (f fetcher) runUnit(ctx context.Context, key string, order job.Fetch) (*job.Fetched, error) {
	text, err := json.Marshal(order)
	if err == nil {
		err = files.Replace(filepath.Join(f.dir(key), paths.Order), text)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write the order of a fetch: %w", err)
	}
	unit := paths.RepositoryUnit(key)
	for range 2 {
		err = f.systemd.RunJob(ctx, unit)
		fetched, readErr := files.Read(filepath.Join(f.dir(key), paths.Result), job.Read[job.Fetched])
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
	return nil, wire.Refuse(wire.Unavailable, "try again; journalctl -u "+unit+" has more",
		"the fetch of the repository has no result: %s", reason)
}

// redirected is git's report of a redirection that it does not follow, but for the last digit of the status.
const redirected = "The requested URL returned error: 30"

// failureOf is the error of a request after its fetch has failed. The text has git's own words.
func failureOf(of store.Repository, f *job.Failure) error {
	if f.Code == job.UnknownRef {
		at := strings.LastIndex(f.Text, ": ")
		return wire.Refuse(wire.UnknownRef, f.Text[at+2:], "%s: %s", of.Name(), f.Text[:max(at, 0)])
	}
	remedy := "see that the URL is right, that this host reaches it, and that runner.toml has a credential for it ([[credentials]])"
	if of.Path != "" {
		remedy = "see that `git fsck` finds no fault in it, and that this host reaches the repositories of its submodules"
	}
	if strings.Contains(f.Text, redirected) {
		remedy = "write the URL that the server redirects to (GitLab's ends in .git), as a fetch with a credential follows no redirection"
	}
	return wire.Refuse(wire.RepositoryFailed, remedy, "%s cannot be fetched: %s", of.Name(), f.Text)
}

// clear removes the credentials and uploads that fetches of an earlier daemon have left.
func (f fetcher) clear() {
	os.RemoveAll(f.lent(""))
	uploads, _ := filepath.Glob(filepath.Join(f.dir("*"), "upload-*"))
	for _, path := range uploads {
		os.Remove(path)
	}
}

// lend puts a credential where root finds it for the unit of the repository.
func (f fetcher) lend(key string, c Credential) error {
	dir := f.lent(key)
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for name, file := range c.Files {
		if err == nil {
			err = copySecret(filepath.Join(dir, name), file)
		}
	}
	if err != nil {
		f.takeBack(key)
		return fmt.Errorf("cannot prepare the credential of a repository: %w", err)
	}
	return nil
}

// takeBack removes the files of lend. A unit that runs has a copy.
func (f fetcher) takeBack(key string) {
	os.RemoveAll(f.lent(key))
}

func copySecret(to, from string) error {
	secret, err := ReadSecret(from)
	if err == nil {
		err = os.WriteFile(to, secret, 0o600)
	}
	return err
}

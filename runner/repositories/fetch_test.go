package repositories

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/files"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
)

const origin = "https://git.example.com/a/b"

// A fetch with a credential follows no redirection, which git reports as a failure.
func TestRedirection(t *testing.T) {
	for text, want := range map[string]string{
		"The requested URL returned error: 302": "write the URL that the server redirects to",
		"The requested URL returned error: 503": "see that the URL is right",
	} {
		err := failureOf(store.Repository{URL: origin}, &job.Failure{Code: job.Failed, Text: "git ls-remote: fatal: " + text})
		var refused *wire.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, wire.RepositoryFailed, refused.Code)
		assert.ErrorContains(t, err, origin+" cannot be fetched: git ls-remote: fatal: "+text+": "+want)
	}
}

// Requests that wait share a fetch, and none shares one that has begun. A request that ends leaves the fetch to the
// others.
func TestSharedFetches(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(t.Context(), filepath.Join(dir, store.FileName))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, st.Close()) })
	units := runnertest.New(t, dir, dir)
	logger := slog.New(slog.DiscardHandler)
	wake := make(chan struct{}, 100)
	r := New(Settings{
		Config: Config{Count: 10, Disk: 1 << 30, Size: 1 << 20, Timeout: time.Minute}, Store: st.Repositories,
		Systemd: systemd.New(units, logger, func() {}), Files: files.Files{StateDir: dir, RuntimeDir: dir}, Logger: logger,
		Announce: func() { wake <- struct{}{} }, Trim: func() {}, Evicted: func(string, int64) {},
	})
	begun, held := make(chan struct{}, 10), make(chan struct{})
	var fetches atomic.Int32
	units.Play(func(unit string) error {
		begun <- struct{}{}
		<-held
		fetches.Add(1)
		return fetched(filepath.Join(dir, paths.RepositoryDir(strings.TrimPrefix(strings.TrimSuffix(unit, ".service"), "codex-repository@"))))
	})
	var all sync.WaitGroup
	request := func(ctx context.Context, want error) {
		all.Go(func() {
			source, release, err := r.Resolve(ctx, wire.Owner{UID: 1000}, wire.NewSession{Repository: origin, Ref: "main"})
			defer release()
			if want != nil {
				assert.ErrorIs(t, err, want)
			} else if assert.NoError(t, err) {
				assert.Equal(t, strings.Repeat("c", 40), source.Commit)
			}
		})
		<-wake
	}
	due := func() {
		for _, work := range r.Due() {
			all.Go(func() { work(t.Context()) })
		}
	}
	gone, hangUp := context.WithCancel(t.Context())
	request(gone, context.Canceled)
	due()
	<-begun
	for range 5 {
		request(t.Context(), nil)
	}
	hangUp()
	assert.Empty(t, r.Due(), "the mirror is busy")
	if assert.Len(t, r.mirrors.waiting, 1) {
		assert.Equal(t, 5, r.mirrors.waiting[0].requests)
	}
	close(held)
	<-wake // the end of the first fetch
	due()
	all.Wait()
	assert.EqualValues(t, 2, fetches.Load())
	assert.Empty(t, r.mirrors.inUse)
}

// fetched writes the result of a fetch, as the unit does.
func fetched(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, paths.Order))
	var order job.Fetch
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	if err == nil {
		text, err = json.Marshal(job.Fetched{Version: job.Version, ID: order.ID, Commit: strings.Repeat("c", 40), Bytes: 1})
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, paths.Result), append(text, '\n'), 0o600)
}

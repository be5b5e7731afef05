package proxy

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// Requests in flight in the processes of before a reload count against the limit of an
// API key and against max_inflight until they end.
func TestLimitsAcrossReloads(t *testing.T) {
	bed.EitherSuite(t, limitsAcrossReloads)
}

func limitsAcrossReloads(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "max_inflight = 2\nqueue_timeout = \"1m\"\n")
	b.Start()
	alice, bob := bed.AddKey(b, "alice", "--concurrent=1"), bed.AddKey(b, "bob")
	b.Key = alice
	first := bed.Hold(b, "first")
	for range 4 {
		kept := b.HTTPClient() // has a connection to the process that is about to be replaced
		require.Equal(t, http.StatusTooManyRequests, askWith(b, kept, alice, nil))
		b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
		assert.Equal(t, http.StatusTooManyRequests, askWith(b, nil, alice, nil))
		assert.Equal(t, http.StatusTooManyRequests, askWith(b, kept, alice, nil))
	}
	b.Key = bob
	second := bed.Hold(b, "second")
	b.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	third := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	go func() { third <- ask(bed.NewClient(b), true, false) }()
	b.Until("waiting", func(_ int, r bed.Report) bool { return r.Queue.Depth == 1 })
	assert.Empty(t, third)
	first.Finish(b)
	select {
	case err := <-third:
		assert.NoError(t, err)
	case <-ctx.Done():
		assert.Fail(t, "the place of the turn that has ended is not given back")
	}
	assert.Eventually(t, func() bool { return askWith(b, nil, alice, nil) == http.StatusOK }, bed.Bound, 10*time.Millisecond)
	second.Finish(b)
	bed.AwaitSole(b)
	bed.AssertSmooth(b)
}

// The turns of a process of the last release count against max_inflight after an upgrade
// until they end; a downgrade loses none.
func TestPlacesAcrossReleases(t *testing.T) { bed.EitherSuite(t, testPlacesAcrossReleases) }

func testPlacesAcrossReleases(t *testing.T, suite string) {
	found, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), "*.deb"))
	require.NoError(t, err)
	require.Len(t, found, 1, "CODEX_PROXY_TEST_RELEASED has no package of the release; `make test` makes it")
	b, p := bed.Empty(t, suite), bed.AptGet()
	p.Install(b, found[0])
	require.NoError(t, b.WriteFile(bed.KeyFile, nil, 0o600))
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(bed.RealWorker), 0o644))
	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte("max_inflight = 2\nqueue_timeout = \"1m\"\n"), 0o644))
	b.Start()
	first, second := bed.Hold(b, "first"), bed.Hold(b, "second")
	p.Install(b, p.Now)
	third := make(chan error, 1)
	go func() { third <- ask(bed.NewClient(b), true, false) }()
	b.Until("waiting", func(_ int, r bed.Report) bool { return r.Queue.Depth == 1 })
	first.Finish(b)
	select {
	case err := <-third:
		assert.NoError(t, err)
	case <-time.After(bed.Bound):
		assert.Fail(t, "the place of the turn that has ended is not given back")
	}
	last := bed.Hold(b, "last")
	p.Install(b, found[0])
	second.Finish(b)
	last.Finish(b)
	bed.AwaitSole(b)
	bed.AssertSmooth(b)
}

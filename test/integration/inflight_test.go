package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Requests in flight in the processes of before a reload count against the limit of an
// API key and against max_inflight until they end.
func TestLimitsAcrossReloads(t *testing.T) {
	bothSuites(t, limitsAcrossReloads)
}

func limitsAcrossReloads(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "max_inflight = 2\nqueue_timeout = \"1m\"\n")
	b.start()
	alice, bob := b.addKey("alice", "--concurrent=1"), b.addKey("bob")
	b.key = alice
	first := b.hold("first")
	for range 4 {
		kept := b.HTTPClient() // has a connection to the process that is about to be replaced
		require.Equal(t, http.StatusTooManyRequests, b.askWith(kept, alice, nil))
		b.MustRun(t, "systemctl", "reload", proxyUnit)
		assert.Equal(t, http.StatusTooManyRequests, b.askWith(nil, alice, nil))
		assert.Equal(t, http.StatusTooManyRequests, b.askWith(kept, alice, nil))
	}
	b.key = bob
	second := b.hold("second")
	b.MustRun(t, "systemctl", "reload", proxyUnit)
	third := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	go func() { third <- ask(b.newClient(), true, false) }()
	b.until("waiting", func(_ int, r report) bool { return r.Queue.Depth == 1 })
	assert.Empty(t, third)
	first.finish(b)
	select {
	case err := <-third:
		assert.NoError(t, err)
	case <-ctx.Done():
		assert.Fail(t, "the place of the turn that has ended is not given back")
	}
	assert.Eventually(t, func() bool { return b.askWith(nil, alice, nil) == http.StatusOK }, bound, 10*time.Millisecond)
	second.finish(b)
	b.awaitSole()
	b.assertSmooth()
}

// The turns of a process of the last release count against max_inflight after an upgrade
// until they end; a downgrade loses none.
func TestPlacesAcrossReleases(t *testing.T) { bothSuites(t, testPlacesAcrossReleases) }

func testPlacesAcrossReleases(t *testing.T, suite string) {
	found, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), "*.deb"))
	require.NoError(t, err)
	require.Len(t, found, 1, "CODEX_PROXY_TEST_RELEASED has no package of the release; `make test` makes it")
	b, p := emptyBed(t, suite), aptGet()
	p.install(b, found[0])
	require.NoError(t, b.WriteFile(keyFile, nil, 0o600))
	require.NoError(t, b.WriteFile(workerFile, []byte(realWorker), 0o644))
	require.NoError(t, b.WriteFile(configFile, []byte("max_inflight = 2\nqueue_timeout = \"1m\"\n"), 0o644))
	b.start()
	first, second := b.hold("first"), b.hold("second")
	p.install(b, p.now)
	third := make(chan error, 1)
	go func() { third <- ask(b.newClient(), true, false) }()
	b.until("waiting", func(_ int, r report) bool { return r.Queue.Depth == 1 })
	first.finish(b)
	select {
	case err := <-third:
		assert.NoError(t, err)
	case <-time.After(bound):
		assert.Fail(t, "the place of the turn that has ended is not given back")
	}
	last := b.hold("last")
	p.install(b, found[0])
	second.finish(b)
	last.finish(b)
	b.awaitSole()
	b.assertSmooth()
}

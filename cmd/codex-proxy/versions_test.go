package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/test/machine"
)

// releasedProgram is the program of the last release.
func releasedProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), "codex-proxy")
	if _, err := os.Stat(path); err != nil && os.Getenv(machine.RequireEnv) == "" {
		t.Skip("CODEX_PROXY_TEST_RELEASED has no program of the release; `make test` makes it: ", err)
	}
	return path
}

// install replaces the program at path, as a package does.
func install(t *testing.T, program, path string) {
	t.Helper()
	data, err := os.ReadFile(program)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", data, 0o755))
	require.NoError(t, os.Rename(path+".new", path))
}

// This version takes over from the release and hands over to it. Drains, keys, places and
// the end of the process before reach the other version either way.
func TestHandOffBetweenVersions(t *testing.T) {
	released := releasedProgram(t)
	ours, err := os.Executable()
	require.NoError(t, err)
	for _, tc := range []struct {
		name     string
		programs []string
	}{
		{"upgrade", []string{released, ours}},
		{"downgrade", []string{ours, released}},
		{"upgrade, twice", []string{released, ours, ours}},
		{"downgrade, then upgrade", []string{ours, released, ours}},
	} {
		t.Run(tc.name, func(t *testing.T) { handOffBetween(t, tc.programs) })
	}
}

func handOffBetween(t *testing.T, programs []string) {
	alice, file := limitedKey(t)
	program := filepath.Join(shortDir(t), "codex-proxy")
	install(t, programs[0], program)
	w := &counted{ends: make(chan struct{})}
	s := processOf(t, program, "api_keys="+file, "queue_timeout=50ms")
	s.worker(t, &appservertest.Server{Handler: w.handle})
	s.note(t, "READY=1")
	holder := s.client(t, alice)
	first := holder.begin(stream)
	require.Equal(t, http.StatusOK, first.StatusCode)
	var kept [][2]*client // in each process that is replaced
	for _, next := range programs[1:] {
		pair := [2]*client{s.client(t, alice), s.client(t, alice)}
		pair[0].touch()
		pair[1].touch()
		kept = append(kept, pair)
		install(t, next, program)
		s.reload(t)
	}
	control := filepath.Join(s.dir, "control")
	want := result{stdout: "worker default takes no new turns; 1 turn in flight\n"}
	assert.Equal(t, want, try(t, "drain", "--socket", control))
	for _, pair := range kept {
		assert.Equal(t, http.StatusServiceUnavailable, pair[0].ask(), "it has the drain")
	}
	assert.Zero(t, try(t, "undrain", "--socket", control).status)
	revoked := try(t, "keys", "revoke", "alice", "--file", file, "--socket", control)
	assert.Contains(t, revoked.stderr, "The running service has taken it over.")
	for _, pair := range kept {
		assert.Equal(t, http.StatusUnauthorized, pair[1].ask(), "it has the keys")
		pair[1].http.CloseIdleConnections()
	}
	s.awaitMetric(t, "codex_predecessor_active 1")
	close(w.ends)
	_, err := io.Copy(io.Discard, first.Body)
	require.NoError(t, err)
	holder.http.CloseIdleConnections()
	s.awaitMetric(t, "codex_predecessor_active 0")
	for _, bad := range []string{"cannot take over", "is ignored", "does not answer", "panic", "cut off", "by force"} {
		assert.NotContains(t, s.stderr.String(), bad)
	}
}

// awaitMetric waits for a line of the metrics of the process that serves.
func (s *service) awaitMetric(t *testing.T, line string) {
	t.Helper()
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", nil)
		require.NoError(t, err)
		req.Close = true
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return slices.Contains(strings.Split(string(text), "\n"), line)
	}, bound, 10*time.Millisecond, line)
}

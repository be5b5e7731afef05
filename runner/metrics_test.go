package runner_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
	"codex-proxy/runner/systemd"
)

// What happens is counted, and what is there can be seen.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := newBed(t, func(s *runner.Settings) {
		s.Registry, s.MaxSessions, s.MaxQueued = registry, 1, 1
	})
	s := b.create(alice, "true")
	u := b.started()
	waiting := b.create(alice, "false")
	_, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"true"}}}})
	require.ErrorContains(t, err, "1 commands wait already")
	b.until(s.ID, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandRunning })
	b.expect(registry, `codex_runner_commands{state="queued"} 1`, `codex_runner_commands{state="running"} 1`,
		`codex_runner_sessions{state="active"} 2`, `codex_runner_ready 1`, `codex_runner_max_sessions 1`,
		`codex_runner_workspaces_leased 1`, `codex_runner_queue_refused_total 1`)
	u.End(&session.Result{Exited: true, Bytes: 10})
	b.until(s.ID, func(s wire.Session) bool { return s.State == wire.SessionIdle })
	b.started().End(&session.Result{Exited: true, Status: 1, Bytes: 5})
	b.until(waiting.ID, func(s wire.Session) bool { return s.State == wire.SessionIdle })
	b.expect(registry, `codex_runner_commands_ended_total{outcome="succeeded"} 1`,
		`codex_runner_commands_ended_total{outcome="failed"} 1`, `codex_runner_commands_ended_total{outcome="lost"} 0`,
		`codex_runner_output_bytes_total 15`, `codex_runner_queue_wait_seconds_count 2`, `codex_runner_start_seconds_count 2`,
		`codex_runner_sessions{state="idle"} 2`)
}

// expect requires these lines in the exposition.
func (b *bed) expect(registry prometheus.Gatherer, lines ...string) {
	b.t.Helper()
	scrape := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(b.t, http.StatusOK, scrape.Code, scrape.Body.String())
	for _, line := range lines {
		assert.Contains(b.t, strings.Split(scrape.Body.String(), "\n"), line)
	}
}

// A disk without room makes the service not ready, and it takes no command.
func TestFullDisk(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.LeastFree = math.MaxUint64 })
	assert.ErrorIs(t, b.Ready(), runner.ErrDisk)
	_, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"a"}}}})
	assertCode(t, wire.Unavailable, err)
	assert.ErrorContains(t, err, "the disk of /var/lib/codex-runner is full: remove files there")
}

// A systemd that does not answer makes the service not ready, until it answers again.
func TestReady(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Ready())
	b.systemd.Refuse(errors.New("no bus"))
	b.Runs.Reconcile(t.Context())
	assert.ErrorIs(t, b.Ready(), systemd.ErrUnanswered)
	b.systemd.Refuse(nil)
	b.Runs.Reconcile(t.Context())
	assert.NoError(t, b.Ready())
}

package runner_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/store"
)

// A daemon that dies leaves commands in each state. The next one finds them all.
func TestRecovery(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions, s.Workspaces = 4, 8 })
	goesOn := b.create(alice, "goes on", "next")
	endsMeanwhile := b.create(alice, "ends meanwhile")
	vanishes := b.create(alice, "vanishes")
	cancelled := b.create(alice, "is cancelled")
	found := map[string]*runnertest.Unit{}
	for range 4 {
		u := b.started()
		found[u.Session] = u
		b.until(u.Session, running(1))
	}
	waits := b.create(alice, "waits")
	b.stop()
	found[endsMeanwhile.ID].End(exit(3))
	found[vanishes.ID].Vanish()
	st, err := store.Open(t.Context(), filepath.Join(b.settings.StateDir, store.FileName))
	require.NoError(t, err)
	require.NoError(t, st.Commands.Cancel(t.Context(), cancelled.ID, 1, "alice"))
	require.NoError(t, st.Close())
	b.start()

	assert.Equal(t, outcome.Failed, b.until(endsMeanwhile.ID, ended(1)).Commands[0].Outcome.Word)
	assert.Equal(t, outcome.Lost, b.until(vanishes.ID, ended(1)).Commands[0].Outcome.Word)
	assert.Equal(t, "alice", <-found[cancelled.ID].Cancels, "the cancellation is sent again")
	assert.Equal(t, waits.ID, b.started().Session)
	found[goesOn.ID].End(exit(0))
	assert.Equal(t, outcome.Succeeded, b.until(goesOn.ID, ended(1)).Commands[0].Outcome.Word)
	assert.Equal(t, "next", b.started().Spec.Args[0])
}

// A command whose unit the daemon was about to start is started by the next daemon, once.
func TestRecoveryBeforeTheStart(t *testing.T) {
	b := newBed(t)
	b.stop()
	st, err := store.Open(t.Context(), filepath.Join(b.settings.StateDir, store.FileName))
	require.NoError(t, err)
	id := strings.Repeat("a", 16)
	require.NoError(t, st.Sessions.Create(t.Context(), store.New{Session: wire.Session{ID: id, Owner: alice, Created: time.Now(), Environment: "none"},
		Commands: []wire.NewCommand{{Args: []string{"a"}, Limits: wire.Limits{Timeout: 1e9, Output: 1}}}}))
	require.NoError(t, st.Commands.Move(t.Context(), id, 1, wire.CommandQueued, wire.CommandStarting))
	require.NoError(t, st.Close())
	b.start()
	u := b.started()
	assert.Equal(t, id, u.Session)
	u.End(exit(0))
	b.until(id, ended(1))
}

// A session that runs keeps its workspace, however long. When its unit is gone without a word, another one gets that.
func TestWorkspaceOfALostSession(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.Workspaces = 1 })
	runs := b.create(alice, "runs")
	u := b.started()
	b.until(runs.ID, running(1))
	next := b.create(alice, "next")
	b.Runs.Reconcile(t.Context())
	b.Expire(t.Context(), time.Now().Add(1000*time.Hour))
	waits := b.until(next.ID, func(wire.Session) bool { return true })
	assert.Equal(t, wire.CommandQueued, waits.Commands[0].State)
	u.Vanish()
	b.Runs.Reconcile(t.Context())
	assert.Equal(t, outcome.Lost, b.until(runs.ID, ended(1)).Commands[0].Outcome.Word)
	other := b.started()
	assert.Equal(t, next.ID, other.Session)
	assert.Equal(t, u.Spec.Slot, other.Spec.Slot)
}

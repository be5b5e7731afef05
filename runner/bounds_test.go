package runner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// What a session finds damaged is made anew for the next one.
func TestDamagedMirror(t *testing.T) {
	b := newFetchBed(t)
	var commit string
	b.origin, commit = newRepository(t)
	s, err := b.Create(t.Context(), alice, at(originURL, commit))
	require.NoError(t, err)
	b.started().End(&session.Result{Failure: &session.Failure{Stage: session.WorkspaceTask, Text: "broken", Mirror: true}})
	b.until(s.ID, ended(1))
	_, err = b.Create(t.Context(), alice, at(originURL, commit))
	require.NoError(t, err)
	require.Equal(t, 2, b.fetches())
	assert.False(t, b.orders[0].Anew)
	assert.True(t, b.orders[1].Anew)
	_, err = b.Create(t.Context(), alice, at(originURL, commit))
	require.NoError(t, err)
	assert.Equal(t, 2, b.fetches())
}

// The mirrors and workspaces that were used least recently go, and none that a session has.
func TestBounds(t *testing.T) {
	b := newFetchBed(t, func(s *runner.Settings) { s.Repositories.Count, s.WorkspaceDisk = 2, 500 })
	var keys []string
	var open wire.Session
	for n := range 4 {
		dir, commit := newRepository(t)
		to := b.send(dir, commit)
		keys = append(keys, to.Key)
		s, err := b.Create(t.Context(), alice, wire.NewSession{Repository: to.Key, Ref: commit, Commands: []wire.NewCommand{{Args: []string{"a"}}}})
		require.NoError(t, err)
		u := b.started()
		if n == 0 {
			open = s
			u.End(exit(0))
			b.until(s.ID, ended(1))
			continue // it is idle
		}
		result := exit(0)
		result.Disk = 600
		u.End(result)
		b.until(s.ID, ended(1))
		require.NoError(t, b.Cancel(t.Context(), store.Viewer{UID: 1000}, s.ID, 0, "alice"))
	}
	left := func() (all []string) {
		repositories, err := b.Store.Repositories.List(t.Context(), store.Viewer{All: true})
		require.NoError(t, err)
		for _, r := range repositories {
			all = append(all, r.Key)
		}
		return all
	}
	missing := map[string]bool{"slot-2": true, "repository-" + keys[1]: true, "repository-" + keys[2]: true}
	for len(missing) > 0 {
		select {
		case what := <-b.swept:
			if strings.HasPrefix(what, "session-") {
				continue // the home of a closed session goes after a while, too
			}
			assert.Contains(t, []string{"slot-2", "repository-" + keys[1], "repository-" + keys[2]}, what)
			delete(missing, what)
		case <-time.After(patience):
			require.FailNow(t, "nothing is removed", "%v", missing)
		}
	}
	b.wait(func() bool { return len(left()) == 2 })
	assert.Equal(t, []string{keys[0], keys[3]}, left(), "the first one is in use")
	_, err := b.Add(t.Context(), store.Viewer{UID: 1000}, open.ID, wire.NewCommand{Args: []string{"b"}})
	require.NoError(t, err)
	b.started().End(exit(0))
	b.until(open.ID, ended(2))
	_, err = b.Create(t.Context(), alice, at(keys[1], "main"))
	assertCode(t, wire.NotFound, err)
}

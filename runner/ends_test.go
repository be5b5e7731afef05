package runner_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// Until the unit of a command has ended, its session starts no other command and is not closed.
func TestEndIsReportedBeforeThatOfTheUnit(t *testing.T) {
	b := newBed(t)
	s := b.create(alice, "a", "b")
	u := b.started()
	u.Conclude(exit(3))
	got := b.until(s.ID, ended(1))
	assert.Equal(t, outcome.Failed, got.Commands[0].Outcome.Word)
	assert.Equal(t, strings.Repeat("a", 32), got.Commands[0].Invocation)
	runs, queued := b.Queue.Load()
	assert.Equal(t, []int{1, 1}, []int{runs, queued}, "the unit has not ended")
	b.stop() // the next daemon waits as well
	b.start()
	runs, queued = b.Queue.Load()
	assert.Equal(t, []int{1, 1}, []int{runs, queued})
	u.End(nil)
	second := b.started()
	assert.Equal(t, 2, second.Number)
	second.Conclude(exit(0))
	b.until(s.ID, ended(2))
	require.NoError(t, b.Cancel(t.Context(), store.Viewer{All: true}, s.ID, 0, "root"))
	b.until(s.ID, func(s wire.Session) bool { return s.State == wire.SessionIdle })
	second.End(nil)
	b.until(s.ID, closed)
}

// A command that fails is held until it is released or cancelled, with the end that it had.
func TestHold(t *testing.T) {
	b := newBed(t)
	v := store.Viewer{UID: 1000}
	for _, end := range []func(id string) error{
		func(id string) error { return b.Release(t.Context(), v, id) },
		func(id string) error { return b.Cancel(t.Context(), v, id, 1, "bob") },
	} {
		n := wire.NewSession{HoldOnFailure: wire.Duration(time.Hour), Commands: []wire.NewCommand{{Args: []string{"a"}}}}
		s, err := b.Create(t.Context(), alice, n)
		require.NoError(t, err)
		u := b.started()
		assert.Equal(t, time.Hour, u.Spec.Hold)
		assert.NotZero(t, b.until(s.ID, running(1)).Commands[0].Started, "it is known while the command runs")
		assert.ErrorContains(t, b.Release(t.Context(), v, s.ID), "no command of the session "+s.ID+" is held")
		held := make(chan struct{})
		go func() {
			defer close(held)
			u.Hold(exit(3))
		}()
		got := b.until(s.ID, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandHeld })
		assert.Equal(t, outcome.Failed, got.Commands[0].Outcome.Word)
		b.stop() // the next daemon finds it held
		b.start()
		assert.ErrorContains(t, b.Release(t.Context(), store.Viewer{UID: 1001}, s.ID), "there is no such session")
		require.NoError(t, end(s.ID))
		<-held
		u.End(exit(3))
		got = b.until(s.ID, ended(1))
		assert.Equal(t, outcome.Failed, got.Commands[0].Outcome.Word)
		assert.Empty(t, got.Commands[0].Outcome.CancelledBy)
	}
}

// The files that a command leaves are kept, however it ends.
func TestArtifacts(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.Artifacts = artifact.Limits{Bytes: 10, Count: 2} })
	v := store.Viewer{UID: 1000}
	for _, end := range []func(*runnertest.Unit){
		func(u *runnertest.Unit) { u.End(exit(1)) },
		func(u *runnertest.Unit) { u.End(nil) }, // its main process was killed
	} {
		s, err := b.Create(t.Context(), alice, wire.NewSession{
			Commands: []wire.NewCommand{{Args: []string{"a"}, Artifacts: []string{"**/*.xml"}}},
		})
		require.NoError(t, err)
		u := b.started()
		assert.Equal(t, &session.Artifacts{Patterns: []string{"**/*.xml"}, Bytes: 10, Count: 2}, u.Spec.Artifacts)
		archive := `{"path":"a/b.xml","bytes":5}` + "\n12345" + `{"path":"c.xml","bytes":5}` + "\n123"
		require.NoError(t, os.WriteFile(u.File(paths.Artifacts), []byte(archive), 0o600))
		end(u)
		b.until(s.ID, ended(1))
		got, err := b.ArtifactsOf(t.Context(), v, s.ID)
		require.NoError(t, err)
		require.Len(t, got.Artifacts, 1)
		a, content, err := b.Artifact(t.Context(), v, s.ID, got.Artifacts[0].ID)
		require.NoError(t, err)
		assert.Equal(t, "a/b.xml", a.Path)
		text, err := io.ReadAll(content)
		require.NoError(t, errors.Join(err, content.Close()))
		assert.Equal(t, "12345", string(text))
		_, _, err = b.Artifact(t.Context(), v, s.ID, a.ID+1)
		require.ErrorContains(t, err, "has no artifact")
		_, err = b.ArtifactsOf(t.Context(), store.Viewer{UID: 1001}, s.ID)
		assert.ErrorContains(t, err, "there is no such session")
	}
}

// A session stays open for as long as it has asked, within the bound of the settings.
func TestIdleTime(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) {
		s.IdleTimeout, s.MaxIdleTimeout, s.Workspaces, s.Retention = time.Minute, time.Hour, 3, 24*time.Hour
	})
	ids := map[string]string{}
	for name, asked := range map[string]time.Duration{"setting": 0, "half": 30 * time.Minute, "long": 48 * time.Hour} {
		s, err := b.Create(t.Context(), alice, wire.NewSession{IdleTimeout: wire.Duration(asked),
			Commands: []wire.NewCommand{{Args: []string{"a"}}}})
		require.NoError(t, err)
		b.started().End(exit(0))
		ids[name] = s.ID
		b.until(s.ID, ended(1))
	}
	for _, step := range []struct {
		after  time.Duration
		closed string
	}{{2 * time.Minute, "setting"}, {31 * time.Minute, "half"}, {61 * time.Minute, "long"}} {
		b.Expire(t.Context(), time.Now().Add(step.after))
		for name, id := range ids {
			s, err := b.Session(t.Context(), store.Viewer{UID: 1000}, id)
			require.NoError(t, err)
			if name == step.closed {
				assert.Equal(t, wire.SessionClosed, s.State, name)
				delete(ids, name)
			} else {
				assert.Equal(t, wire.SessionIdle, s.State, name)
			}
		}
	}
	_, err := b.Create(t.Context(), alice, wire.NewSession{IdleTimeout: -1,
		Commands: []wire.NewCommand{{Args: []string{"a"}}}})
	assert.ErrorContains(t, err, "idle_timeout is out of range")
}

// A command whose input does not come is cancelled, and the home of the session is removed when it is closed, also by the
// next daemon.
func TestExpiry(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.IdleTimeout = time.Nanosecond })
	b.stop()
	st, err := store.Open(t.Context(), filepath.Join(b.settings.StateDir, store.FileName))
	require.NoError(t, err)
	id := strings.Repeat("a", 16)
	require.NoError(t, st.Sessions.Create(t.Context(), store.New{Session: wire.Session{ID: id, Owner: alice, Created: time.Now(), Environment: "none"},
		Commands: []wire.NewCommand{{Args: []string{"a"}, Stdin: true, Limits: wire.Limits{Timeout: 1e9, Output: 1}}}}))
	require.NoError(t, st.Close())
	swept := make(chan string, 1)
	b.systemd.Play(func(unit string) error {
		swept <- unit
		return nil
	})
	b.start()
	b.Expire(t.Context(), time.Now())
	got := b.until(id, ended(1))
	assert.Equal(t, outcome.Cancelled, got.Commands[0].Outcome.Word)
	assert.Contains(t, got.Commands[0].Outcome.Text, "its standard input did not come within 1ns")
	b.Expire(t.Context(), time.Now())
	b.until(id, closed)
	b.stop()
	b.start()
	select {
	case unit := <-swept:
		assert.Equal(t, paths.SweepUnit("session", id), unit)
	case <-time.After(patience):
		assert.Fail(t, "nothing was swept")
	}
}

// A home that cannot be removed does not keep those of other sessions.
func TestHomeThatCannotBeRemoved(t *testing.T) {
	b := newBed(t)
	want := map[string]bool{}
	for range 2 {
		s := b.create(alice, "a")
		b.started().End(exit(0))
		b.until(s.ID, ended(1))
		require.NoError(t, b.Cancel(t.Context(), store.Viewer{UID: 1000}, s.ID, 0, "alice"))
		b.until(s.ID, closed)
		want[paths.SweepUnit("session", s.ID)] = true
	}
	b.stop()
	tried := make(chan string, 100)
	b.systemd.Play(func(unit string) error {
		tried <- unit
		return errors.New("the job failed")
	})
	b.start()
	for len(want) > 0 {
		select {
		case unit := <-tried:
			require.True(t, want[unit], unit)
			delete(want, unit)
		case <-time.After(patience):
			require.FailNow(t, "a home is not tried", "%v", want)
		}
	}
}

// A daemon that dies while it makes or closes a session leaves secrets.
func TestSecretsOfNoSession(t *testing.T) {
	b := newBed(t)
	n := wire.NewSession{Secrets: map[string]string{"TOKEN": "token"}, Commands: []wire.NewCommand{{Args: []string{"a"}}}}
	open, err := b.Create(t.Context(), alice, n)
	require.NoError(t, err)
	b.started()
	gone, err := b.Create(t.Context(), alice, n)
	require.NoError(t, err)
	b.started().End(exit(0))
	b.until(gone.ID, ended(1))
	require.NoError(t, b.Cancel(t.Context(), store.Viewer{All: true}, gone.ID, 0, "root"))
	b.until(gone.ID, closed)
	b.stop()
	never := strings.Repeat("a", 16)
	for _, dir := range []string{filepath.Join(b.settings.Secrets, gone.ID), filepath.Join(b.settings.Secrets, never),
		filepath.Join(b.settings.StateDir, paths.SessionDir(never))} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	b.start()
	assert.FileExists(t, filepath.Join(b.settings.Secrets, open.ID, "TOKEN"))
	assert.DirExists(t, filepath.Join(b.settings.StateDir, paths.SessionDir(gone.ID)), "its logs")
	assert.NoDirExists(t, filepath.Join(b.settings.Secrets, gone.ID))
	assert.NoDirExists(t, filepath.Join(b.settings.Secrets, never))
	assert.NoDirExists(t, filepath.Join(b.settings.StateDir, paths.SessionDir(never)))
}

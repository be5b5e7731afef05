package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/units"
)

// patience bounds every wait for an event.
const patience = time.Minute

var alice = wire.Owner{UID: 1000, Name: "alice"}

// bed is a machine with a daemon that can be stopped and started.
type bed struct {
	*runner.Runner
	t        *testing.T
	systemd  *runnertest.Systemd
	dir      string
	settings runner.Settings
	stop     func()
}

func newBed(t *testing.T, change ...func(*runner.Settings)) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "runner") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{t: t, dir: dir, settings: runner.Settings{
		StateDir: filepath.Join(dir, "state"), RuntimeDir: filepath.Join(dir, "run"), Secrets: filepath.Join(dir, "secrets"),
		Logger: slog.New(slog.DiscardHandler), MaxSessions: 2, MaxQueued: 10, Workspaces: 2,
		IdleTimeout: time.Hour, Retention: time.Hour, Network: true,
		Limits: runner.Limits{
			Default: wire.Limits{Timeout: wire.Duration(time.Minute), Output: 1 << 20, Memory: 1 << 30},
			Maximum: wire.Limits{Timeout: wire.Duration(time.Hour), Memory: 2 << 30},
		},
	}}
	for _, f := range change {
		f(&b.settings)
	}
	require.NoError(t, os.MkdirAll(b.settings.StateDir, 0o700))
	b.systemd = runnertest.New(t, b.settings.StateDir, b.settings.RuntimeDir)
	b.settings.Units = b.systemd
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// start starts the daemon.
func (b *bed) start() {
	b.t.Helper()
	s := b.settings
	var err error
	s.Store, err = store.Open(b.t.Context(), filepath.Join(s.StateDir, store.FileName))
	require.NoError(b.t, err)
	s.Watcher, err = logs.NewWatcher()
	require.NoError(b.t, err)
	b.Runner = runner.New(s)
	ctx, cancel := context.WithCancel(context.Background())
	_, err = b.Recover(ctx)
	require.NoError(b.t, err)
	var tasks sync.WaitGroup
	tasks.Go(func() { assert.NoError(b.t, s.Watcher.Run(ctx)) })
	tasks.Go(func() { assert.NoError(b.t, b.Run(ctx)) })
	b.stop = sync.OnceFunc(func() {
		cancel()
		tasks.Wait()
		assert.NoError(b.t, s.Store.Close())
	})
}

// create makes a session of one user with these commands.
func (b *bed) create(owner wire.Owner, commands ...string) wire.Session {
	b.t.Helper()
	var n wire.NewSession
	for _, c := range commands {
		n.Commands = append(n.Commands, wire.NewCommand{Args: strings.Fields(c)})
	}
	s, err := b.Create(b.t.Context(), owner, n)
	require.NoError(b.t, err)
	return s
}

// started waits for the start of a unit.
func (b *bed) started() *runnertest.Unit {
	b.t.Helper()
	select {
	case u := <-b.systemd.Started:
		return u
	case <-time.After(patience):
		require.FailNow(b.t, "no unit was started")
		return nil
	}
}

// until waits until the session is as it should be.
func (b *bed) until(id string, is func(wire.Session) bool) wire.Session {
	b.t.Helper()
	for timeout := time.After(patience); ; {
		changed := b.Queue.Changed()
		s, err := b.Session(b.t.Context(), store.Viewer{All: true}, id)
		require.NoError(b.t, err)
		if is(s) {
			return s
		}
		select {
		case <-changed:
		case <-timeout:
			require.FailNow(b.t, "the session does not get there", "%+v", s)
		}
	}
}

func ended(n int) func(wire.Session) bool {
	return func(s wire.Session) bool { return s.Commands[n-1].State == wire.CommandEnded }
}

func closed(s wire.Session) bool { return s.State == wire.SessionClosed }

func running(n int) func(wire.Session) bool { return in(n, wire.CommandRunning) }

func in(n int, state wire.CommandState) func(wire.Session) bool {
	return func(s wire.Session) bool { return s.Commands[n-1].State == state }
}

func exit(status int) *session.Result {
	return &session.Result{Exited: true, Status: status, Bytes: 7, Invocation: strings.Repeat("a", 32)}
}

func TestCommandsRunInOrder(t *testing.T) {
	b := newBed(t)
	s := b.create(alice, "first", "second")
	u := b.started()
	assert.Equal(t, []string{"first"}, u.Spec.Args)
	assert.Equal(t, time.Minute, u.Spec.Timeout)
	assert.Equal(t, []units.Property{{Name: "MemoryMax", Value: 1 << 30}}, u.Properties)
	b.until(s.ID, running(1))
	u.End(exit(3))
	got := b.until(s.ID, ended(1))
	assert.Equal(t, outcome.Failed, got.Commands[0].Outcome.Word)
	assert.EqualValues(t, 7, got.Commands[0].Usage.Output)
	second := b.started()
	assert.Equal(t, []string{"second"}, second.Spec.Args)
	assert.Equal(t, u.Spec.Slot, second.Spec.Slot, "a session keeps its workspace")
	second.End(exit(0))
	b.until(s.ID, func(s wire.Session) bool { return s.State == wire.SessionIdle })
	_, err := b.Add(t.Context(), store.Viewer{UID: 1000}, s.ID, wire.NewCommand{Args: []string{"third"}})
	require.NoError(t, err)
	b.started().End(exit(0))
	b.until(s.ID, ended(3))
	_, err = b.Add(t.Context(), store.Viewer{UID: 1001}, s.ID, wire.NewCommand{Args: []string{"x"}})
	assert.ErrorContains(t, err, "there is no such session", "of another user")
}

func TestQueueOfUsers(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions, s.MaxQueued = 1, 3 })
	b.create(alice, "a1")
	first := b.started()
	a2 := b.create(alice, "a2")
	a3 := b.create(alice, "a3")
	bob := b.create(wire.Owner{UID: 1001, Name: "bob"}, "b1")
	assert.Equal(t, 1, bob.Commands[0].Position, "one of alice runs")
	assert.Equal(t, 3, b.until(a3.ID, func(wire.Session) bool { return true }).Commands[0].Position)
	_, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"a4"}}}})
	var refused *wire.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, wire.QueueFull, refused.Code)
	runs, queued := b.Queue.Load()
	assert.Equal(t, []int{1, 3}, []int{runs, queued})
	plan, err := b.Plan(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"x"}}}})
	require.NoError(t, err)
	assert.Equal(t, 4, plan.Position)
	for _, want := range []string{"a2", "b1", "a3"} {
		first.End(exit(0))
		first = b.started()
		assert.Equal(t, want, first.Spec.Args[0])
	}
	first.End(exit(0))
	b.until(a2.ID, ended(1))
	b.until(a3.ID, ended(1))
}

func TestIdleSessionsLendTheirWorkspaces(t *testing.T) {
	b := newBed(t)
	var ids []string
	for range 3 {
		s := b.create(alice, "true")
		b.started().End(exit(0))
		b.until(s.ID, ended(1))
		ids = append(ids, s.ID)
	}
	first, err := b.Session(t.Context(), store.Viewer{All: true}, ids[0])
	require.NoError(t, err)
	assert.Equal(t, wire.SessionClosed, first.State, "the pool has two workspaces")
	_, err = b.Add(t.Context(), store.Viewer{UID: 1000}, ids[0], wire.NewCommand{Args: []string{"x"}})
	assert.ErrorContains(t, err, "not in a state for that")
}

func TestCancel(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions = 1 })
	s := b.create(alice, "runs", "waits")
	u := b.started()
	b.until(s.ID, running(1))
	require.NoError(t, b.Cancel(t.Context(), store.Viewer{UID: 1000}, s.ID, 2, "alice"))
	got := b.until(s.ID, ended(2))
	assert.Equal(t, outcome.Cancelled, got.Commands[1].Outcome.Word)
	assert.Equal(t, "alice", got.Commands[1].Outcome.CancelledBy)
	assert.ErrorContains(t, b.Cancel(t.Context(), store.Viewer{UID: 1000}, s.ID, 2, "alice"), "no command 2 that has not ended")
	assert.ErrorContains(t, b.Cancel(t.Context(), store.Viewer{UID: 1001}, s.ID, 0, "bob"), "there is no such session")

	require.NoError(t, b.Cancel(t.Context(), store.Viewer{All: true}, s.ID, 0, "root"))
	assert.Equal(t, "root", <-u.Cancels)
	_, err := b.Add(t.Context(), store.Viewer{UID: 1000}, s.ID, wire.NewCommand{Args: []string{"x"}})
	assert.ErrorContains(t, err, "not in a state", "the session is about to close")
	u.End(&session.Result{Exited: true, Signal: 15, Cause: session.Cancelled, CancelledBy: "root"})
	b.until(s.ID, ended(1))
	got = b.until(s.ID, closed)
	assert.Equal(t, outcome.Cancelled, got.Commands[0].Outcome.Word)
	b.stop() // what follows the close is done then
	assert.NoDirExists(t, filepath.Join(b.settings.Secrets, s.ID))
}

func TestStdin(t *testing.T) {
	b := newBed(t)
	s, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{
		{Args: []string{"cat"}, Stdin: true}, {Args: []string{"after"}},
	}})
	require.NoError(t, err)
	assert.Equal(t, wire.CommandAwaitingStdin, s.Commands[0].State)
	v := store.Viewer{UID: 1000}
	_, err = b.PutStdin(t.Context(), v, s.ID, 2, strings.NewReader("x"))
	assert.ErrorContains(t, err, "does not wait for its input")

	// Another request begins first and ends last.
	rest, slow := io.Pipe()
	late := make(chan error, 1)
	go func() {
		_, err := b.PutStdin(t.Context(), v, s.ID, 1, rest)
		rest.Close()
		late <- err
	}()
	_, err = slow.Write([]byte("a longer input"))
	require.NoError(t, err)
	_, err = b.PutStdin(t.Context(), v, s.ID, 1, strings.NewReader("input"))
	require.NoError(t, err)
	require.NoError(t, slow.Close())
	assert.ErrorContains(t, <-late, "does not wait for its input")
	u := b.started()
	left, err := filepath.Glob(u.File(paths.Stdin + "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{u.File(paths.Stdin)}, left)
	text, err := os.ReadFile(u.File(paths.Stdin))
	require.NoError(t, err)
	assert.Equal(t, "input", string(text))
	u.End(exit(0))
	assert.Equal(t, "after", b.started().Spec.Args[0])
}

func TestRefusedStart(t *testing.T) {
	b := newBed(t)
	b.systemd.Refuse(errors.New("cannot start the unit: no bus"))
	s := b.create(alice, "a", "b")
	got := b.until(s.ID, ended(2))
	assert.Equal(t, outcome.WorkspaceFailed, got.Commands[0].Outcome.Word)
	assert.Contains(t, got.Commands[0].Outcome.Text, "cannot start the unit: no bus")
	assert.Zero(t, got.Commands[0].Started)
}

// A bus that is away is no refusal: the commands stay where they are, and each runs once.
func TestUnansweredStart(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions = 1 })
	b.systemd.Refuse(fmt.Errorf("the bus is away: %w", units.ErrUnanswered))
	first, second := b.create(alice, "a"), b.create(alice, "b")
	b.until(first.ID, in(1, wire.CommandStarting))
	require.Eventually(t, func() bool { return b.Ready() != nil }, patience, time.Millisecond)
	b.until(second.ID, in(1, wire.CommandQueued))
	b.systemd.Unheard(1)
	b.systemd.Refuse(nil)
	u := b.started()
	b.until(first.ID, in(1, wire.CommandRunning))
	u.End(exit(3))
	assert.Equal(t, outcome.Failed, b.until(first.ID, ended(1)).Commands[0].Outcome.Word)
	next := b.started()
	assert.Equal(t, second.ID, next.Session)
	next.End(exit(0))
	b.until(second.ID, ended(1))
	b.Runs.Reconcile(t.Context())
	assert.NoError(t, b.Ready())
}

// A cancelled command does not start later, when systemd answers again.
func TestCancelledBeforeAnAnswer(t *testing.T) {
	b := newBed(t)
	b.systemd.Refuse(fmt.Errorf("the bus is away: %w", units.ErrUnanswered))
	s := b.create(alice, "a")
	b.until(s.ID, in(1, wire.CommandStarting))
	require.NoError(t, b.Cancel(t.Context(), store.Viewer{UID: 1000}, s.ID, 0, "alice"))
	b.systemd.Refuse(nil)
	got := b.until(s.ID, ended(1))
	assert.Equal(t, outcome.Cancelled, got.Commands[0].Outcome.Word)
	assert.Empty(t, b.systemd.Started)
}

func TestSecrets(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions = 1 })
	n := wire.NewSession{Limits: wire.Limits{Disk: 5 << 20}, Secrets: map[string]string{"TOKEN": "token"}, Commands: []wire.NewCommand{{Args: []string{"a"}}, {Args: []string{"b"}}}}
	s, err := b.Create(t.Context(), alice, n)
	require.NoError(t, err)
	assert.Equal(t, []string{"TOKEN"}, s.Secrets)
	u := b.started()
	text, err := os.ReadFile(filepath.Join(b.settings.Secrets, s.ID, "TOKEN"))
	require.NoError(t, err)
	assert.Equal(t, "token", string(text))
	assert.EqualValues(t, 5<<20, u.Spec.Disk)
	require.NoError(t, os.RemoveAll(b.settings.Secrets)) // the host has restarted
	u.End(exit(0))
	got := b.until(s.ID, ended(2))
	assert.Contains(t, got.Commands[1].Outcome.Text, "the secrets of the session are gone with a restart of the host")
}

func TestRequestsAreChecked(t *testing.T) {
	b := newBed(t)
	command := []wire.NewCommand{{Args: []string{"a"}}}
	for want, n := range map[string]wire.NewSession{
		"commands has 0 of them: send 1 to 100":                 {},
		"hold_on_failure is out of range: use a time up to 24h": {Commands: command, HoldOnFailure: -1},
		"args is empty: name a command":                         {Commands: []wire.NewCommand{{}}},
		"directory is \"../x\": use a path":                     {Commands: []wire.NewCommand{{Args: []string{"a"}, Directory: "../x"}}},
		"limits.timeout is out of range: use at most 1h":        {Commands: command, Limits: wire.Limits{Timeout: wire.Duration(2 * time.Hour)}},
		"limits.grace is out of range: use at most 1m0s":        {Commands: command, Limits: wire.Limits{Grace: wire.Duration(time.Hour)}},
		"limits.memory is out of range: use at most 2G,":        {Commands: command, Limits: wire.Limits{Memory: 3 << 30}},
		"limits.memory is out of range: use at least 16M":       {Commands: command, Limits: wire.Limits{Memory: 1}},
		"limits.cpus is out of range: use at least 0.01":        {Commands: command, Limits: wire.Limits{CPUs: 1e-6}},
		"limits.tasks is out of range":                          {Commands: command, Limits: wire.Limits{Tasks: -1}},
		"commands[1]: args is empty: name a command":            {Commands: append(command, wire.NewCommand{})},
		"secrets has the name \"../x\": use up to 64 letters":   {Commands: command, Secrets: map[string]string{"../x": "y"}},
		"the secret A has 0 bytes":                              {Commands: command, Secrets: map[string]string{"A": ""}},
		"the secret A has 3 bytes: hiding a value so short":     {Commands: command, Secrets: map[string]string{"A": "abc"}},
		"artifacts[0]: \"../x\" is no pattern":                  {Commands: []wire.NewCommand{{Args: []string{"a"}, Artifacts: []string{"../x"}}}},
	} {
		_, err := b.Create(t.Context(), alice, n)
		var refused *wire.Error
		require.ErrorAs(t, err, &refused, want)
		assert.Regexp(t, "^"+regexp.QuoteMeta(want), refused.Error())
		assert.Equal(t, wire.InvalidRequest, refused.Code)
	}
	entries, err := os.ReadDir(filepath.Join(b.settings.StateDir, "sessions"))
	assert.True(t, err != nil || len(entries) == 0, "nothing is left")
}

func TestPrune(t *testing.T) {
	b := newBed(t)
	s := b.create(alice, "a")
	u := b.started()
	require.NoError(t, os.WriteFile(u.File(paths.Output), make([]byte, 1000), 0o600))
	u.End(exit(0))
	b.until(s.ID, ended(1))
	v := store.Viewer{UID: 1000}
	everything := wire.Prune{OlderThan: 1}
	pruned, err := b.Prune(t.Context(), v, everything, time.Now())
	require.NoError(t, err)
	assert.Empty(t, pruned.Sessions, "it is not closed")
	require.NoError(t, b.Cancel(t.Context(), v, s.ID, 0, "alice"))
	b.until(s.ID, closed)
	pruned, err = b.Prune(t.Context(), v, wire.Prune{OlderThan: 1, DryRun: true}, time.Now())
	require.NoError(t, err)
	assert.Equal(t, []string{s.ID}, pruned.Sessions)
	assert.Greater(t, pruned.Bytes, int64(1000))
	pruned, err = b.Prune(t.Context(), v, everything, time.Now())
	require.NoError(t, err)
	assert.Equal(t, []string{s.ID}, pruned.Sessions)
	_, err = b.Session(t.Context(), v, s.ID)
	assert.ErrorContains(t, err, "there is no such session")
	assert.NoDirExists(t, filepath.Join(b.settings.StateDir, paths.SessionDir(s.ID)))
}

// Many users add, cancel and end at the same time: every command ends once.
func TestManySessions(t *testing.T) {
	b := newBed(t, func(s *runner.Settings) { s.MaxSessions, s.Workspaces, s.MaxQueued = 8, 16, 1000 })
	var ids []string
	for n := range 60 {
		s := b.create(wire.Owner{UID: uint32(n % 5), Name: fmt.Sprint(n)}, "a", "b")
		ids = append(ids, s.ID)
	}
	for _, id := range ids[:10] {
		require.NoError(t, b.Cancel(t.Context(), store.Viewer{All: true}, id, 2, "root"))
	}
	var enders sync.WaitGroup
	for range 110 {
		u := b.started()
		enders.Go(func() { u.End(exit(0)) })
	}
	enders.Wait()
	for i, id := range ids {
		s := b.until(id, func(s wire.Session) bool { return ended(1)(s) && ended(2)(s) })
		assert.Equal(t, outcome.Succeeded, s.Commands[0].Outcome.Word)
		assert.Equal(t, i < 10, s.Commands[1].Outcome.Word == outcome.Cancelled)
	}
	// Their units end after them.
	b.until(ids[0], func(wire.Session) bool {
		runs, queued := b.Queue.Load()
		return runs == 0 && queued == 0
	})
}

package environments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/files"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/store"
	"codex-proxy/runner/systemd"
	"codex-proxy/test/await"
)

// setUpBed plays the units that run set-ups. The key of a snapshot is made of the scope and the commit's first two letters.
type setUpBed struct {
	*Environments
	t     *testing.T
	store *store.Store
	last  int           // session
	begin chan struct{} // has a value for each build that may end

	mu     sync.Mutex
	orders []setup.Build
	units  []string
	fail   bool
	idle   bool // the set-up does nothing
	lacks  []string
	test   bool // its script has a Test
	kill   bool // the unit of the Test leaves no result
	swept  int  // snapshots that were removed
	gone   int  // how many units of Tests find no snapshot
}

func newSetUpBed(t *testing.T) *setUpBed {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(dir, store.FileName))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	b := &setUpBed{t: t, store: s, begin: make(chan struct{}, 100)}
	fake := runnertest.New(t, dir, t.TempDir())
	fake.Play(b.play)
	logger := slog.New(slog.DiscardHandler)
	b.Environments = New(Settings{
		Config: Config{MaxBytes: 1 << 20, Timeout: time.Minute, Network: BuildsForAll}, Network: true,
		Store: s.Environments, Systemd: systemd.New(fake, logger, func() {}), Files: files.Files{StateDir: dir}, Logger: logger,
		Announce: func() {
			for _, do := range b.Due() {
				go do(t.Context())
			}
		},
	})
	return b
}

func (b *setUpBed) play(unit string) error {
	template, instance, _ := strings.Cut(strings.TrimSuffix(unit, ".service"), "@")
	if template == "codex-sweep" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.swept++
		return nil
	}
	<-b.begin
	dir := filepath.Join(b.Files.StateDir, paths.EnvironmentDir(instance))
	text, err := os.ReadFile(filepath.Join(dir, paths.Order))
	var order job.Build
	if err = errors.Join(err, json.Unmarshal(text, &order)); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orders, b.units = append(b.orders, *order.SetUp), append(b.units, unit)
	built := job.Built{Version: job.Version, Snapshot: named(*order.SetUp), Facts: environment.Facts{"/bin/x": {}}}
	built.Made, built.Bytes = true, 5
	for _, one := range order.SetUp.Ready {
		switch {
		case one.Key == built.Key:
			built.Made, built.Bytes = false, 0
		case one.Family == built.Family && order.SetUp.From == "" && built.From == "":
			built.Made, built.Bytes, built.From = false, 0, one.Key
		}
	}
	built.Test = b.test && built.Made && !order.SetUp.Test
	if order.SetUp.Test {
		if built.Snapshot = order.SetUp.As; b.kill {
			return nil
		}
		if b.gone > 0 {
			b.gone--
			built = job.Built{Version: job.Version, Snapshot: named(*order.SetUp), Gone: true}
		}
	}
	if b.idle {
		built = job.Built{Version: job.Version, Lacks: b.lacks}
	}
	if b.fail {
		built = job.Built{Version: job.Version, Failure: &job.Failure{Code: job.Failed, Text: "the set-up failed"}}
	}
	text, err = json.Marshal(built)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, paths.Result), append(text, '\n'), 0o600))
}

func keyOf(b setup.Build) string { return named(b).Key }

// named is the snapshot of a build. The commit's second letter has the inputs, and the first one the rest.
func named(b setup.Build) setup.Snapshot {
	scope := b.Scope.Sum()
	return setup.Snapshot{Key: setup.SnapshotKey(scope, b.Commit[:2]), Family: setup.SnapshotKey(scope, b.Commit[:1])}
}

// session is the first command of a new session of a commit.
func (b *setUpBed) session(owner uint32, repository, commit string) store.Live {
	b.t.Helper()
	b.last++
	id := fmt.Sprintf("%016d", b.last)
	require.NoError(b.t, b.store.Sessions.Create(b.t.Context(), store.New{Session: wire.Session{
		ID: id, Owner: wire.Owner{UID: owner}, Created: time.Now(), Environment: environment.Setup,
	}, Repository: repository, Commands: []wire.NewCommand{{Args: []string{"a"}}}}))
	return store.Live{Session: id, Number: 1, Owner: owner, Repository: repository, Commit: commit, Environment: environment.Setup}
}

// snapshot is that of the command's specification.
func (b *setUpBed) snapshot(c store.Live) *session.Snapshot {
	b.t.Helper()
	spec, err := b.Spec(b.t.Context(), c)
	require.NoError(b.t, err)
	return spec.Snapshot
}

// Eight sessions of a commit at the same time have one build, and later ones have none.
func TestOneBuildForAllSessions(t *testing.T) {
	b := newSetUpBed(t)
	var all sync.WaitGroup
	got := make(chan *session.Snapshot, 8)
	for range 8 {
		c := b.session(1000, "r", "a1")
		all.Go(func() { got <- b.snapshot(c) })
	}
	b.begin <- struct{}{}
	all.Wait()
	want := &session.Snapshot{User: "1000", Key: keyOf(b.orders[0])}
	for range 8 {
		assert.Equal(t, want, <-got)
	}
	spec, err := b.Spec(t.Context(), b.session(1000, "r", "a1"))
	require.NoError(t, err)
	assert.Equal(t, want, spec.Snapshot)
	assert.JSONEq(t, `{"/bin/x":{"tools":null,"files":null}}`, string(spec.Facts), "of the build")
	require.Len(t, b.orders, 1)
	hits, misses, removed := b.Snapshots()
	assert.Equal(t, []int64{9, 0}, []int64{hits + misses, removed})
	assert.Positive(t, misses, "who waits for the build")
	assert.Positive(t, hits, "the last one")
	assert.Equal(t, setup.Scope{User: "1000", Repository: "r", Online: true}, b.orders[0].Scope)
	assert.Equal(t, paths.OnlineEnvironmentUnit(b.orders[0].Key()), b.units[0])
	left, err := b.Store.List(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 1, "the build itself is no environment")
	assert.Equal(t, store.Environment{
		Key: want.Key, Provider: "setup", State: store.EnvironmentReady, Bytes: 5, Used: left[0].Used, Leased: true,
		Family: named(b.orders[0]).Family,
	}, left[0])
}

// Another commit only finds out its key, if a snapshot of that is there. Another user or repository has a build of its
// own, and so has a session with other variables.
func TestWhoseSnapshotsAreShared(t *testing.T) {
	b := newSetUpBed(t)
	for range 10 {
		b.begin <- struct{}{}
	}
	first := b.snapshot(b.session(1000, "r", "a1"))
	assert.Equal(t, first, b.snapshot(b.session(1000, "r", "a12")))
	assert.Equal(t, []setup.Snapshot{named(b.orders[0])}, b.orders[1].Ready)
	variables := b.session(1000, "r", "a1")
	variables.Command.Env = map[string]string{"A": "a"}
	keys := map[string]bool{first.Key: true}
	for _, c := range []store.Live{b.session(1001, "r", "a1"), b.session(1000, "q", "a1"), variables} {
		keys[b.snapshot(c).Key] = true
	}
	assert.Len(t, keys, 4)

	secret, empty, patched := b.session(1000, "r", "b1"), b.session(1000, "r", ""), b.session(1000, "r", "a1")
	secret.Secrets, patched.Patch = []string{"TOKEN"}, "sum"
	assert.NotNil(t, b.snapshot(secret))
	b.fail, secret.Commit = true, "c1"
	assert.Nil(t, b.snapshot(secret), "no build has a secret, and the set-up may need it")
	assert.Nil(t, b.snapshot(empty), "there is no commit")
	assert.Equal(t, first, b.snapshot(patched), "the build is without the patch")
}

// The later commands of a session have what the first one has, whatever their variables are.
func TestLaterCommandsHaveTheSameSnapshot(t *testing.T) {
	b := newSetUpBed(t)
	b.begin <- struct{}{}
	c := b.session(1000, "0123456789abcdef", "a1")
	spec, err := b.Spec(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(b.Files.Session(c.Session), 0o700))
	require.NoError(t, b.Files.WriteCommand(c.Session, 1, &session.Spec{
		Version: session.Version, Args: []string{"a"}, Timeout: 1, OutputLimit: 1, Slot: 1, Environment: spec,
	}))
	c.Number, c.Command.Env = 2, map[string]string{"A": "a"}
	assert.Equal(t, spec.Snapshot, b.snapshot(c))
	require.NoError(t, b.store.Commands.End(t.Context(), c.Session, 1, store.Ending{}, time.Now()))
	assert.ErrorIs(t, b.Store.Remove(t.Context(), spec.Snapshot.Key), store.ErrState, "the session is open")
}

// Another set-up with the same script begins with the last snapshot of the user and repository that has it.
func TestBuildBeginsWithASnapshot(t *testing.T) {
	b := newSetUpBed(t)
	for range 10 {
		b.begin <- struct{}{}
	}
	first := b.snapshot(b.session(1000, "r", "a1"))
	b.snapshot(b.session(1000, "r", "b1"))
	b.snapshot(b.session(1001, "r", "a1"))
	second := b.snapshot(b.session(1000, "r", "a2"))
	require.Len(t, b.orders, 5)
	last := b.orders[4]
	assert.Equal(t, first.Key, last.From)
	assert.Equal(t, second.Key, last.As.Key)
	assert.Equal(t, b.units[3], b.units[4])
	b.snapshot(b.session(1000, "r", "a3"))
	assert.Equal(t, second.Key, b.orders[6].From)
}

// A unit without the network adds the results of a script's Test. If it is killed, sessions have the snapshot without.
func TestUnitOfTheTests(t *testing.T) {
	b := newSetUpBed(t)
	b.test = true
	for range 4 {
		b.begin <- struct{}{}
	}
	for i, commit := range []string{"aa", "ba"} { // of the second one, the unit is killed
		b.kill = i == 1
		c := b.session(1, "r", commit)
		got := b.snapshot(c)
		require.Len(t, b.orders, 2*i+2)
		first, second := b.orders[2*i], b.orders[2*i+1]
		key := first.Key()
		assert.Equal(t, []string{paths.OnlineEnvironmentUnit(key), paths.EnvironmentUnit(key)}, b.units[2*i:],
			"without the network")
		assert.Equal(t, first.Key(), second.Key())
		plain := named(first)
		assert.Equal(t, []any{true, plain.Key, plain.Tested()}, []any{second.Test, second.From, second.As})
		want := map[bool]setup.Snapshot{false: plain.Tested(), true: plain}[b.kill]
		assert.Equal(t, &session.Snapshot{User: "1", Key: want.Key}, got)
	}
	await.True(t, func() bool {
		all, err := b.store.Environments.List(t.Context())
		require.NoError(t, err)
		return len(all) == 2
	}, 10*time.Second, "the one without the results is removed")
}

// A snapshot that another set-up of the same inputs has removed before the tests is made again: no session begins with one
// that is not there.
func TestSnapshotThatIsGoneBeforeTheTests(t *testing.T) {
	b := newSetUpBed(t)
	b.test, b.gone = true, 1
	for range 4 {
		b.begin <- struct{}{}
	}
	got := b.snapshot(b.session(1, "r", "aa"))
	require.Len(t, b.orders, 4)
	key := b.orders[0].Key()
	online, without := paths.OnlineEnvironmentUnit(key), paths.EnvironmentUnit(key)
	assert.Equal(t, []string{online, without, online, without}, b.units)
	assert.Equal(t, named(b.orders[0]).Tested().Key, got.Key)
}

// The snapshot without the results of a Test stays while another set-up adds its own results to it.
func TestSnapshotThatIsTestedTwice(t *testing.T) {
	b := newSetUpBed(t)
	b.test = true
	other := &task{key: "other", provider: environment.Setup}
	other.untested.Store(&job.Built{Snapshot: named(setup.Build{Commit: "aa", Scope: setup.Scope{User: "1", Repository: "r", Online: true}})})
	b.Environments.mu.Lock()
	b.tasks[other.key] = other
	b.Environments.mu.Unlock()
	for range 2 {
		b.begin <- struct{}{}
	}
	got := b.snapshot(b.session(1, "r", "aa"))
	plain := named(b.orders[0])
	require.Equal(t, plain.Tested().Key, got.Key)
	b.Environments.mu.Lock()
	assert.NotContains(t, b.tasks, plain.Key, "no removal has begun")
	b.Environments.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Zero(t, b.swept)
}

// A unit of the tests that outlives the daemon does not fail the session, however it ends.
func TestUnitOfTheTestsThatIsResumed(t *testing.T) {
	b := newSetUpBed(t)
	b.test = true
	for range 2 {
		b.begin <- struct{}{}
	}
	c := b.session(1, "r", "aa")
	b.snapshot(c)
	key := b.orders[1].Key()
	untested := named(b.orders[0])
	await.True(t, func() bool {
		all, err := b.store.Environments.List(t.Context())
		require.NoError(t, err)
		return len(all) == 1
	}, 10*time.Second, "the one without the results is removed")
	require.NoError(t, b.store.Environments.Snapshot(t.Context(), untested.Key, untested.Family, 5, time.Now()))
	require.NoError(t, b.store.Environments.Begin(t.Context(), key, environment.Setup, time.Now()))
	require.NoError(t, b.builder.writeOrder(&task{key: key, setUp: &b.orders[1]}))
	b.kill = true
	require.NoError(t, b.resume(t.Context(), store.Environment{Key: key, Provider: environment.Setup},
		map[string]bool{paths.EnvironmentUnit(key): true}))
	resumed := b.tasks[key]
	b.begin <- struct{}{}
	b.Announce()
	<-resumed.done
	require.NoError(t, resumed.err)
	assert.Equal(t, untested.Key, resumed.built.Key)
}

// A commit without a file that a set-up could follow from has no build, and one that needs none has no second one.
func TestCommitsWithoutASetUp(t *testing.T) {
	b := newSetUpBed(t)
	c := b.session(1000, "0123456789abcdef", "a1")
	require.NoError(t, b.store.Repositories.Add(t.Context(), store.Repository{Key: c.Repository}))
	require.NoError(t, b.store.Repositories.Fetched(t.Context(), c.Repository, store.Commit{ID: "a1", Plain: true}, 0, time.Now()))
	assert.Nil(t, b.snapshot(c))
	assert.Empty(t, b.orders)
	b.idle = true
	b.begin <- struct{}{}
	for range 2 {
		assert.Nil(t, b.snapshot(b.session(1000, c.Repository, "b1")))
	}
	assert.Len(t, b.orders, 1)

	// With a set-up of its own, a session has a build all the same.
	b.idle, c.Number = false, 1
	require.NoError(t, b.Files.Make(c.Session, nil, map[string]string{paths.SetUp: "run = 'true'"}))
	b.begin <- struct{}{}
	assert.NotNil(t, b.snapshot(c))
	assert.Equal(t, "run = 'true'", b.orders[1].Given)
}

func TestFailedSetUp(t *testing.T) {
	b := newSetUpBed(t)
	b.fail = true
	b.begin <- struct{}{}
	_, err := b.Spec(t.Context(), b.session(1000, "r", "a1"))
	failed, ok := errors.AsType[*BuildError](err)
	require.True(t, ok)
	assert.EqualError(t, failed, "cannot build the environment setup: the set-up failed (--env none leaves the set-up out)")
	left, err := b.Store.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, left)
	b.Network = false
	b.begin <- struct{}{}
	_, err = b.Spec(t.Context(), b.session(1000, "r", "a1"))
	require.ErrorContains(t, err, "the build of the set-up has no network (network and [environments] of runner.toml decide): cannot build")
	b.Network = true
	b.fail = false
	b.begin <- struct{}{}
	assert.NotNil(t, b.snapshot(b.session(1000, "r", "a1")), "it is tried again")
}

// The end of a command's wait leaves the build to others.
func TestEndOfTheWait(t *testing.T) {
	b := newSetUpBed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Spec(ctx, b.session(1000, "r", "a1"))
	require.ErrorIs(t, err, context.Canceled)
	b.begin <- struct{}{}
	assert.NotNil(t, b.snapshot(b.session(1000, "r", "a1")))
	assert.Len(t, b.orders, 1)
}

// What makes room is counted apart, by its kind.
func TestRemovedSnapshot(t *testing.T) {
	var said []string
	e := New(Settings{Evicted: func(key string, snapshot bool, bytes int64) { said = append(said, fmt.Sprint(key, snapshot, bytes)) }})
	e.evicted(&task{key: "a", provider: environment.Setup, bytes: 5}, e.Evicted)
	e.evicted(&task{key: "b", provider: "uv", bytes: 6}, e.Evicted)
	_, _, removed := e.Snapshots()
	assert.EqualValues(t, 1, removed)
	assert.Equal(t, []string{"atrue 5", "bfalse 6"}, said)
}

// A session that had to run the set-up itself has the next one ask again, or has the snapshot made anew.
func TestDistrust(t *testing.T) {
	b := newSetUpBed(t)
	for range 10 {
		b.begin <- struct{}{}
	}
	c := b.session(1000, "r", "a1")
	first := b.snapshot(c)
	require.NoError(t, b.Distrust(t.Context(), c, session.SnapshotStale))
	assert.Equal(t, first, b.snapshot(b.session(1000, "r", "a1")))
	assert.Equal(t, []setup.Snapshot{named(b.orders[0])}, b.orders[1].Ready)
	require.NoError(t, b.Distrust(t.Context(), c, session.SnapshotMissing))
	assert.Equal(t, first, b.snapshot(b.session(1000, "r", "a1")))
	require.Len(t, b.orders, 3)
	assert.Empty(t, b.orders[2].Ready)
	assert.Equal(t, first, b.snapshot(b.session(1000, "r", "a1")))
	assert.Len(t, b.orders, 3)
}

// A commit without a set-up that does anything, for the lack of a program, has another build when the program is there.
func TestProgramsThatTheHostLacked(t *testing.T) {
	b := newSetUpBed(t)
	tools := t.TempDir()
	b.Config.Sandbox = &sandbox.Given{Path: []string{tools}}
	b.begin <- struct{}{}
	b.begin <- struct{}{}
	b.idle, b.lacks = true, []string{"no-such-program or other"}
	for range 2 {
		assert.Nil(t, b.snapshot(b.session(1000, "r", "a1")))
	}
	require.Len(t, b.orders, 1)
	require.NoError(t, os.WriteFile(filepath.Join(tools, "no-such-program"), nil, 0o700))
	b.idle = false
	assert.NotNil(t, b.snapshot(b.session(1000, "r", "a1")))
	require.Len(t, b.orders, 2)

	b.begin <- struct{}{}
	b.idle = true // the program is there now, and fails
	for range 2 {
		assert.Nil(t, b.snapshot(b.session(1000, "r", "b1")))
	}
	require.Len(t, b.orders, 3)
}

// A build runs code of its user: it has the network where sessions may have it.
func TestSetUpsWithTheNetwork(t *testing.T) {
	for _, c := range []struct {
		config   Config
		sessions bool
		want     string // whether a build has the network for a session without it, and for one with it
	}{
		{Config{Network: BuildsForAll}, true, "true true"},
		{Config{Network: BuildsForOnline}, true, "false true"},
		{Config{Network: BuildsForNone}, true, "false false"},
		{Config{Network: BuildsForAll, Store: "/srv"}, true, "false false"},
		{Config{Network: BuildsForAll}, false, "false false"},
	} {
		e := New(Settings{Config: c.config, Network: c.sessions})
		assert.Equal(t, c.want, fmt.Sprint(setups{e}.buildOf(store.Live{}, "").Scope.Online, setups{e}.buildOf(store.Live{Network: true}, "").Scope.Online))
	}
}

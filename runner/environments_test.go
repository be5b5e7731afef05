package runner_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/files"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runnertest"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// builder plays the units that build and remove environments.
type builder struct {
	*bed
	builds, sweeps atomic.Int32
	units          chan string    // each unit that begins to build
	end            chan job.Built // the results of builds; closed, these are killed
}

func newBuilder(t *testing.T, change ...func(*runner.Settings)) *builder {
	b := &builder{units: make(chan string, 100), end: make(chan job.Built, 100)}
	b.bed = newBed(t, append([]func(*runner.Settings){func(s *runner.Settings) {
		s.MaxSessions, s.Workspaces = 10, 10
		s.Environments = environments.Config{
			MaxBytes: 100, Timeout: time.Minute, Network: environments.BuildsForOnline, Store: "/srv/packages",
		}
	}}, change...)...)
	b.systemd.Play(b.play)
	return b
}

func (b *builder) play(unit string) error {
	template, key, _ := strings.Cut(strings.TrimSuffix(unit, ".service"), "@")
	if template == "codex-sweep" {
		b.sweeps.Add(1)
		return nil
	}
	b.builds.Add(1)
	b.units <- unit
	built, ok := <-b.end
	if !ok {
		return errors.New("the job failed")
	}
	dir := filepath.Join(b.settings.StateDir, paths.EnvironmentDir(key))
	text, err := json.Marshal(built)
	if err == nil && built.Failure != nil {
		err = os.WriteFile(filepath.Join(dir, paths.Output), []byte("\x1b[31mthe tool\nsays why\n"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, paths.Result), append(text, '\n'), 0o600)
	}
	return err
}

// need is the need of a session for packages of that name.
func need(name string) *exec.Need {
	n := exec.Need{Order: environment.Order{
		Owner: "1000", Provider: "conda", Manifests: []environment.Manifest{{Path: "environment.yml", Content: []byte(name)}},
		Store: environment.Store{Dir: "/srv/packages", Sums: []byte("x")},
	}}
	n.Key = n.Order.Key()
	return &n
}

// awaits starts a session whose command waits for an environment.
func (b *builder) awaits(n *exec.Need) *runnertest.Unit {
	b.t.Helper()
	_, err := b.Create(b.t.Context(), alice, wire.NewSession{Environment: "conda", Commands: []wire.NewCommand{{Args: []string{"a"}}}})
	require.NoError(b.t, err)
	u := b.started()
	u.Enter(exec.Reply{Phase: exec.Awaiting, Need: n})
	return u
}

// provided is the daemon's answer.
func (b *builder) provided(u *runnertest.Unit) exec.Request {
	b.t.Helper()
	select {
	case answer := <-u.Provided:
		return answer
	case <-time.After(patience):
		require.FailNow(b.t, "no environment was provided")
		return exec.Request{}
	}
}

// ends ends the command, and waits until that is stored.
func (b *builder) ends(u *runnertest.Unit) {
	b.t.Helper()
	u.End(exit(0))
	b.until(u.Session, ended(1))
}

// Without a repository, a set-up runs in the session: it has the whole time of a build, and asks the daemon for nothing.
func TestSetupInTheSession(t *testing.T) {
	b := newBuilder(t)
	like := wire.NewSession{Environment: "venv", Commands: []wire.NewCommand{{Args: []string{"a"}}}}
	plan, err := b.Plan(t.Context(), alice, like)
	require.NoError(t, err)
	assert.Equal(t, "setup: by the files of the workspace, in the session", plan.Environment)
	_, err = b.Create(t.Context(), alice, like)
	require.NoError(t, err)
	u := b.started()
	assert.Equal(t, &session.Environment{Owner: "1000", Name: "setup", Store: "/srv/packages", Wait: time.Minute}, u.Spec.Environment)
	b.ends(u)
	_, err = b.Create(t.Context(), alice, wire.NewSession{SetUp: "run = 'true'", Commands: like.Commands})
	require.NoError(t, err)
	u = b.started()
	assert.Equal(t, "run = 'true'", u.Spec.Environment.SetUp)
	b.ends(u)
	for want, n := range map[string]wire.NewSession{
		"there is no environment \"vnev\"":                      {Environment: "vnev"},
		"a set-up and the environment none exclude each other":  {Environment: "none", SetUp: "run = 'true'"},
		`the set-up:1: unknown key "rnu" (did you mean "run"?)`: {SetUp: "rnu = 'true'"},
	} {
		n.Commands = like.Commands
		_, err = b.Create(t.Context(), alice, n)
		require.ErrorContains(t, err, want)
	}
}

// The changes of a session need the snapshot that it began with, and no packages.
func TestEnvironmentOfChanges(t *testing.T) {
	b := newBuilder(t)
	s, err := b.Create(t.Context(), alice, wire.NewSession{Environment: "auto", Commands: []wire.NewCommand{{Args: []string{"a"}}}})
	require.NoError(t, err)
	changes := wire.NewCommand{Args: session.DiffOrder{}.Args()}
	for n, want := range []*session.Environment{nil, {
		Owner: "1000", Name: "setup", Wait: time.Minute, Snapshot: &session.Snapshot{User: "1000", Key: strings.Repeat("a", 64)},
	}} {
		u := b.started()
		u.End(exit(0))
		b.until(s.ID, ended(n*2+1))
		if want != nil {
			first := *u.Spec
			first.Environment = want
			require.NoError(t, files.Files{StateDir: b.settings.StateDir}.WriteCommand(s.ID, 1, &first))
		}
		_, err := b.Add(t.Context(), store.Viewer{UID: 1000}, s.ID, changes)
		require.NoError(t, err)
		u = b.started()
		assert.Equal(t, want, u.Spec.Environment)
		u.End(exit(0))
		b.until(s.ID, ended(n*2+2))
		_, err = b.Add(t.Context(), store.Viewer{UID: 1000}, s.ID, wire.NewCommand{Args: []string{"b"}})
		require.NoError(t, err)
	}
	b.started().End(exit(0))
	b.until(s.ID, ended(5))
}

func TestOneBuildForAll(t *testing.T) {
	b := newBuilder(t)
	n := need("a")
	var all []*runnertest.Unit
	for range 8 {
		all = append(all, b.awaits(n))
	}
	assert.Equal(t, &session.Environment{Owner: "1000", Name: "conda", Store: "/srv/packages", Wait: 2 * time.Minute}, all[0].Spec.Environment)
	assert.Equal(t, paths.EnvironmentUnit(n.Key), <-b.units)
	b.end <- job.Built{Version: job.Version, Bytes: 50}
	for _, u := range all {
		assert.Equal(t, exec.Request{Version: session.Version, Do: exec.Provide, Key: n.Key}, b.provided(u))
	}
	text, err := os.ReadFile(filepath.Join(b.settings.StateDir, paths.EnvironmentDir(n.Key), paths.Order))
	require.NoError(t, err)
	var order job.Build
	require.NoError(t, json.Unmarshal(text, &order))
	assert.Equal(t, job.Build{Version: job.Version, Order: n.Order, Bytes: 100}, order)

	like := wire.NewSession{Environment: "conda", Commands: []wire.NewCommand{{Args: []string{"a"}}}}
	for owner, want := range map[wire.Owner]string{
		alice:                    "conda: " + n.Key + ", unless the tools of the host have changed",
		{UID: 1001, Name: "bob"}: "conda: the manifests in the workspace decide on the key",
	} {
		plan, err := b.Plan(t.Context(), owner, like)
		require.NoError(t, err)
		assert.Contains(t, plan.Environment, want)
	}

	ninth := b.awaits(need("a"))
	assert.Empty(t, b.provided(ninth).Fault)
	assert.EqualValues(t, 1, b.builds.Load())

	n.Missing = true // somebody has removed it
	removed := b.awaits(n)
	<-b.units
	b.end <- job.Built{Version: job.Version, Bytes: 50}
	assert.Empty(t, b.provided(removed).Fault)
}

func TestBuildsThatFail(t *testing.T) {
	var journal strings.Builder
	b := newBuilder(t, func(s *runner.Settings) { s.Logger = slog.New(slog.NewTextHandler(&journal, nil)) })
	n := need("a")
	u := b.awaits(n)
	b.end <- job.Built{Version: job.Version, Failure: &job.Failure{Code: job.Failed, Text: "pip: exit status 1"}}
	assert.Equal(t, "cannot build the environment conda: pip: exit status 1; its output ends with:\n[31mthe tool\nsays why",
		b.provided(u).Fault)
	assert.EqualValues(t, 1, b.sweeps.Load(), "nothing half is left")
	assert.Contains(t, journal.String(), `error="cannot build the environment conda: pip: exit status 1"`)
	assert.NotContains(t, journal.String(), "says why", "what foreign programs write may be secret")
	u = b.awaits(n)
	close(b.end)
	assert.Contains(t, b.provided(u).Fault, "was killed or did not start: `journalctl -u codex-environment@"+n.Key[:28]+".service` has the reason")
	assert.EqualValues(t, 2, b.builds.Load(), "the next command builds again")
	all, err := b.Store.Environments.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, all)
}

func TestBuildThatTakesTooLong(t *testing.T) {
	b := newBuilder(t, func(s *runner.Settings) { s.Environments.Timeout = 50 * time.Millisecond })
	u := b.awaits(need("a"))
	assert.Contains(t, b.provided(u).Fault, "took longer than 50ms: mend what hangs, need fewer packages")
	close(b.end)
}

func TestNeedsThatLie(t *testing.T) {
	b := newBuilder(t)
	other := need("a")
	other.Key = need("b").Key
	assert.Contains(t, b.provided(b.awaits(other)).Fault, "but its order is that of "+other.Order.Key())
	online := need("a")
	online.Order.Store = environment.Store{}
	online.Key = online.Order.Key()
	assert.Contains(t, b.provided(b.awaits(online)).Fault, "store or shared of [environments] has been changed meanwhile")
	foreign := need("a")
	foreign.Order.Owner = "1001"
	foreign.Key = foreign.Order.Key()
	assert.Contains(t, b.provided(b.awaits(foreign)).Fault, "store or shared of [environments] has been changed meanwhile")
	assert.Zero(t, b.builds.Load())
}

// Users share environments where the administrator lets them.
func TestSharedEnvironments(t *testing.T) {
	b := newBuilder(t, func(s *runner.Settings) { s.Environments.Shared = true })
	n := need("a")
	n.Order.Owner = paths.Shared
	n.Key = n.Order.Key()
	u := b.awaits(n)
	assert.Equal(t, paths.Shared, u.Spec.Environment.Owner)
	b.end <- job.Built{Version: job.Version, Bytes: 1}
	assert.Empty(t, b.provided(u).Fault)
	assert.Contains(t, b.provided(b.awaits(need("a"))).Fault, "has been changed meanwhile")
}

// What a command has written is not built with the network, but what the commit of the session has is built again.
func TestManifestsOfACommand(t *testing.T) {
	b := newBuilder(t, func(s *runner.Settings) { s.Environments.Store, s.Environments.Network = "", environments.BuildsForAll })
	online := func(name string) *exec.Need {
		n := need(name)
		n.Order.Store = environment.Store{}
		n.Key = n.Order.Key()
		return n
	}
	_, err := b.Create(t.Context(), alice, wire.NewSession{
		Environment: "conda", Commands: []wire.NewCommand{{Args: []string{"a"}}, {Args: []string{"b"}}, {Args: []string{"c"}}},
	})
	require.NoError(t, err)
	first := b.started()
	first.Enter(exec.Reply{Phase: exec.Awaiting, Need: online("committed")})
	b.end <- job.Built{Version: job.Version, Bytes: 1}
	assert.Empty(t, b.provided(first).Fault)
	first.End(exit(0))
	second := b.started()
	second.Enter(exec.Reply{Phase: exec.Awaiting, Need: online("written")})
	assert.Contains(t, b.provided(second).Fault, "a command may have written its manifests: commit them or send them as a patch")
	second.End(exit(0))
	third := b.started()
	again := online("committed")
	again.Missing = true
	third.Enter(exec.Reply{Phase: exec.Awaiting, Need: again})
	b.end <- job.Built{Version: job.Version, Bytes: 1}
	assert.Empty(t, b.provided(third).Fault)
	assert.EqualValues(t, 2, b.builds.Load())
	b.ends(third)
}

// An environment of an earlier version, whose key is short, is removed.
func TestEnvironmentOfAnEarlierVersion(t *testing.T) {
	b := newBuilder(t)
	const old = "0123456789abcdef"
	require.NoError(t, b.Store.Environments.Begin(t.Context(), old, "venv", time.Now()))
	require.NoError(t, b.Store.Environments.Ready(t.Context(), old, 1))
	n := need("a")
	u := b.awaits(n)
	b.end <- job.Built{Version: job.Version, Bytes: 1}
	assert.Empty(t, b.provided(u).Fault)
	b.left(n.Key)
}

func TestBuildsWithTheNetwork(t *testing.T) {
	b := newBuilder(t, func(s *runner.Settings) { s.Environments.Store = "" })
	n := need("a")
	n.Order.Store = environment.Store{}
	n.Key = n.Order.Key()
	assert.Contains(t, b.provided(b.awaits(n)).Fault, "may not be built with the network for this session")
	_, err := b.Create(t.Context(), alice, wire.NewSession{Environment: "micromamba", Network: true, Commands: []wire.NewCommand{{Args: []string{"a"}}}})
	require.NoError(t, err)
	u := b.started()
	u.Enter(exec.Reply{Phase: exec.Awaiting, Need: n})
	assert.Equal(t, paths.OnlineEnvironmentUnit(n.Key), <-b.units)
	b.end <- job.Built{Version: job.Version}
	assert.Empty(t, b.provided(u).Fault)
	assert.Empty(t, b.provided(b.awaits(n)).Fault, "it is there, for all")
}

// The least recently used go first, and none that a command uses.
func TestRoomForEnvironments(t *testing.T) {
	b := newBuilder(t)
	var units []*runnertest.Unit
	for _, name := range []string{"a", "b", "c"} {
		u := b.awaits(need(name))
		b.end <- job.Built{Version: job.Version, Bytes: 45}
		assert.Empty(t, b.provided(u).Fault)
		units = append(units, u)
		if name == "b" {
			b.ends(u)
		}
	}
	b.left(need("a").Key, need("c").Key)
	b.ends(units[0])
	b.ends(units[2])
	u := b.awaits(need("d"))
	b.end <- job.Built{Version: job.Version, Bytes: 45}
	assert.Empty(t, b.provided(u).Fault)
	b.left(need("c").Key, need("d").Key)
	u = b.awaits(need("a"))
	b.end <- job.Built{Version: job.Version, Bytes: 45}
	assert.Empty(t, b.provided(u).Fault, "it is built again")
}

// left waits until the store has these environments.
func (b *builder) left(keys ...string) {
	b.t.Helper()
	slices.Sort(keys)
	require.Eventually(b.t, func() bool {
		all, err := b.Store.Environments.List(b.t.Context())
		require.NoError(b.t, err)
		var is []string
		for _, e := range all {
			is = append(is, e.Key)
		}
		slices.Sort(is)
		return slices.Equal(keys, is)
	}, patience, 10*time.Millisecond)
}

// A daemon that dies leaves builds that run, and some that have ended.
func TestRecoveryOfBuilds(t *testing.T) {
	b := newBuilder(t)
	runs, done := need("runs"), need("done")
	u, ready := b.awaits(runs), b.awaits(done)
	<-b.units
	<-b.units
	b.stop()
	b.end <- job.Built{Version: job.Version, Bytes: 1}
	b.end <- job.Built{Version: job.Version, Bytes: 1}
	require.Eventually(t, func() bool { // a start of a unit that has ended would build again
		active, err := b.systemd.List(t.Context(), "codex-environment*")
		return err == nil && len(active) == 0
	}, patience, time.Millisecond)
	b.start()
	assert.Empty(t, b.provided(u).Fault)
	assert.Empty(t, b.provided(ready).Fault)
	assert.EqualValues(t, 2, b.builds.Load())
	b.left(runs.Key, done.Key)
	cancelled := b.awaits(need("cancelled"))
	<-b.units
	require.NoError(t, b.Cancel(t.Context(), store.Viewer{All: true}, cancelled.Session, 0, "root"))
	assert.Equal(t, "root", <-cancelled.Cancels)
	b.ends(cancelled)
	b.end <- job.Built{Version: job.Version, Bytes: 1}
}

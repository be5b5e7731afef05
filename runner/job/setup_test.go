package job

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/setup"
)

// setUpBed is a repository with a set-up of its own, and the place of its builds.
type setUpBed struct {
	t      *testing.T
	origin string
	place  Place
}

func newSetUpBed(t *testing.T, script string) *setUpBed {
	top := t.TempDir()
	b := &setUpBed{t: t, origin: top + "/origin", place: Place{
		Environments: top + "/state", Checkout: top + "/state/snapshot/workspace", Home: top + "/state/snapshot/home",
		State: top + "/state/snapshot", Repository: top + "/repository", Programs: sandbox.Programs{Usual: "/usr/local/bin:/usr/bin:/bin"},
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + top + "/state/snapshot/home", "INVOCATION_ID=x"},
	}}
	git(t, top, "init", "-q", "-b", "main", "origin")
	b.write(setup.File, script)
	b.write(".gitignore", "/made\n")
	b.write("input", "1")
	return b
}

func (b *setUpBed) write(name, text string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(filepath.Join(b.origin, name), []byte(text), 0o600))
}

// order is that of the commit alone.
func (b *setUpBed) order() setup.Order {
	b.t.Helper()
	order, err := setup.Plan(b.t.Context(), environment.Host{Path: b.place.Programs.Path()}, b.origin, setup.Source{})
	require.NoError(b.t, err)
	return order
}

func (b *setUpBed) empty() {
	b.t.Helper()
	require.NoError(b.t, os.RemoveAll(b.place.Environments))
	for _, dir := range []string{b.place.Checkout, b.place.Home} {
		require.NoError(b.t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(b.t, os.WriteFile(filepath.Join(b.place.State, paths.Record), nil, 0o600))
	require.NoError(b.t, os.WriteFile(filepath.Join(b.place.State, paths.Left), nil, 0o600))
}

// build runs the set-up of a new commit in an empty place, or in one with the files of a snapshot.
func (b *setUpBed) build(change func(*Build)) Built {
	b.t.Helper()
	git(b.t, b.origin, "add", ".")
	git(b.t, b.origin, "commit", "-q", "--allow-empty", "-m", "next")
	require.NoError(b.t, os.RemoveAll(b.place.Repository))
	git(b.t, b.origin, "clone", "-q", "--bare", ".", filepath.Join(b.place.Repository, paths.Mirror))
	order := Build{Version: Version, Bytes: 1 << 30, SetUp: &setup.Build{
		Scope:  setup.Scope{User: "1000", Repository: "r", Env: map[string]string{"B": "of the command"}},
		Commit: git(b.t, b.origin, "rev-parse", "HEAD"),
	}}
	if change != nil {
		change(&order)
	}
	if order.SetUp.From == "" { // else the files of the last build are those of the snapshot
		b.empty()
	}
	f := files(b.t, order)
	require.NoError(b.t, Build{}.Run(b.t.Context(), f, paths.EnvironmentInstance(order.Key()), b.place))
	return *result[Built](b.t, f)
}

const setUpFile = `run = "echo $A $B ${INVOCATION_ID-none} >made; echo cached >$HOME/cached; echo changed >input"
inputs = ["input"]
env = {A = "a", B = "b"}
`

// A build leaves the files of the commit and what the set-up has made, and its key is that of the commit.
func TestSetUp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, setUpFile)
	order := b.order()
	scope := setup.Scope{User: "1000", Repository: "r", Env: map[string]string{"B": "of the command"}}
	built := b.build(nil)
	require.Nil(t, built.Failure)
	assert.True(t, built.Made)
	assert.Positive(t, built.Bytes)
	assert.Equal(t, setup.SnapshotKey(scope.Sum(), order.Key()), built.Key)
	for file, want := range map[string]string{
		filepath.Join(b.place.Checkout, "made"): "a of the command none\n", filepath.Join(b.place.Home, "cached"): "cached\n",
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
	assert.NoDirExists(t, filepath.Join(b.place.Checkout, ".git"))
	input, err := os.ReadFile(filepath.Join(b.place.Checkout, "input"))
	require.NoError(t, err)
	assert.Equal(t, "1", string(input), "of the commit")
	left, err := os.ReadFile(filepath.Join(b.place.State, paths.Left))
	require.NoError(t, err)
	assert.Equal(t, order.Key(), string(left))

	assert.NotEmpty(t, built.Facts)
	ready := func(o *Build) { o.SetUp.Ready = []setup.Snapshot{built.Snapshot} }
	again := b.build(ready)
	assert.Equal(t, Built{Version: Version, Snapshot: built.Snapshot, Facts: again.Facts}, again, "of another commit with the same inputs")
	assert.NoFileExists(t, filepath.Join(b.place.Checkout, "made"))
	b.write("input", "2")
	other := b.build(ready)
	assert.NotEqual(t, built.Key, other.Key)
	assert.Equal(t, Built{
		Version: Version, Snapshot: setup.Snapshot{Key: other.Key, Family: built.Family}, From: built.Key, Facts: other.Facts,
	}, other, "it is to begin with the other one")
}

// A build that begins with a snapshot has its files, and names its result by the commit alone. If it fails, it begins
// again without.
func TestSetUpThatBeginsWithASnapshot(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, "run = 'echo x >>made; echo x >>$HOME/made; echo x >>list; test \"$(cat made)\" != \"$(cat input)\"'\ninputs = ['input', 'list']\n")
	first := b.build(nil)
	require.Nil(t, first.Failure)
	made := func() string {
		t.Helper()
		there, err := os.ReadFile(filepath.Join(b.place.Checkout, "made"))
		home, homeErr := os.ReadFile(filepath.Join(b.place.Home, "made"))
		require.NoError(t, errors.Join(err, homeErr))
		assert.Equal(t, there, home)
		return string(there)
	}
	next := func(o *Build) {
		o.SetUp.From, o.SetUp.As = first.Key, o.SetUp.Scope.Named(b.order())
	}
	for _, step := range []struct{ input, want string }{{"2", "x\nx\n"}, {"x\nx\nx", "x\n"}} {
		b.write("input", step.input)
		warm := b.build(next)
		require.Nil(t, warm.Failure)
		assert.Equal(t, Built{
			Version: Version, Made: true, Bytes: warm.Bytes, Facts: warm.Facts,
			Snapshot: setup.Scope{User: "1000", Repository: "r", Env: map[string]string{"B": "of the command"}}.Named(b.order()),
		}, warm)
		assert.Equal(t, step.want, made())
	}
	b.write(setup.File, "run = 'echo x >>made; cp made $HOME'\n")
	require.Nil(t, b.build(func(o *Build) { next(o); o.SetUp.As = first.Snapshot }).Failure)
	assert.Equal(t, "x\n", made(), "the script is another one")
}

// What a script's Test leaves is in a snapshot of its own, which precedes the one without. Test may fail.
func TestSetUpThatTests(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, `run = 'echo x >made; echo run >>$HOME/ran'
test = 'false; echo $B ${LC_ALL-none} >>made; echo test >>$HOME/ran; echo y >>input; exit 3'
inputs = ['input']
`)
	plain := b.build(nil)
	require.Nil(t, plain.Failure)
	assert.True(t, plain.Made)
	assert.True(t, plain.Test)
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	assert.Equal(t, "x\n", read(b.place.Checkout+"/made"))
	left := read(filepath.Join(b.place.State, paths.Left))
	then := func(o *Build) { o.SetUp.Test, o.SetUp.From, o.SetUp.As = true, plain.Key, plain.Tested() }
	tested := b.build(then)
	assert.Equal(t, Built{
		Version: Version, Snapshot: plain.Tested(), Made: true, Bytes: tested.Bytes, Facts: tested.Facts,
	}, tested)
	assert.NotEqual(t, plain.Key, tested.Key)
	assert.Equal(t, "x\nof the command none\n", read(b.place.Checkout+"/made"))
	assert.Equal(t, "run\ntest\n", read(b.place.Home+"/ran"))
	assert.Equal(t, "1", read(b.place.Checkout+"/input"), "of the commit")
	assert.Equal(t, left, read(filepath.Join(b.place.State, paths.Left)), "sessions know it as the same set-up")

	maxTest = 0
	t.Cleanup(func() { maxTest = 5 * time.Minute })
	long := b.build(then)
	assert.Equal(t, Built{Version: Version, Snapshot: plain.Snapshot, Facts: long.Facts}, long, "half of a result is none")
	for _, ready := range [][]setup.Snapshot{
		{plain.Snapshot}, {tested.Snapshot, plain.Snapshot}, {plain.Snapshot, tested.Snapshot},
	} {
		again := b.build(func(o *Build) { o.SetUp.Ready = ready })
		want := ready[max(0, slices.Index(ready, tested.Snapshot))]
		assert.Equal(t, Built{Version: Version, Snapshot: want, Facts: again.Facts}, again)
	}
	b.empty()
	gone := b.build(then)
	assert.Equal(t, Built{Version: Version, Snapshot: plain.Snapshot, Gone: true, Facts: gone.Facts}, gone, "it was removed meanwhile")
}

// What detected tests leave in the checkout is in no session: there it would count as a change.
func TestFilesOfTests(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, "")
	require.NoError(t, os.Remove(filepath.Join(b.origin, setup.File)))
	b.write("go.mod", "module x\n")
	programs := t.TempDir()
	require.NoError(t, os.WriteFile(programs+"/go", []byte(`#!/bin/sh
case "$*" in
"env GOCACHE") mkdir -p "$HOME/cache"; echo "$HOME/cache" ;;
"test -exec true ./...") touch generated made ;;
"test ./...") mkdir -p kept sub; touch left "sub/a file" kept/.gitignore made "$HOME/result"; git init -q nested; echo x >>input ;;
esac
`), 0o700)) //nolint:gosec // a program
	b.place.Programs.Usual = programs + ":" + b.place.Programs.Usual
	b.place.Environ[0] = "PATH=" + b.place.Programs.Usual
	plain := b.build(nil)
	require.Nil(t, plain.Failure)
	require.True(t, plain.Test)
	tested := b.build(func(o *Build) { o.SetUp.Test, o.SetUp.From, o.SetUp.As = true, plain.Key, plain.Tested() })
	assert.Equal(t, plain.Tested(), tested.Snapshot)
	assert.FileExists(t, b.place.Home+"/result")
	for _, name := range []string{"generated", "made", "input"} {
		assert.FileExists(t, filepath.Join(b.place.Checkout, name))
	}
	for _, name := range []string{"left", "sub/a file", "kept/.gitignore", "nested"} {
		assert.NoFileExists(t, filepath.Join(b.place.Checkout, name))
		assert.NoDirExists(t, filepath.Join(b.place.Checkout, name))
	}
}

// A set-up may make inputs of its own, such as a lock: the key that sessions find is by these, too.
func TestSetUpThatMakesInputs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, "run = 'echo made >made.lock'\ninputs = ['*.lock']\n")
	require.Nil(t, b.build(nil).Failure)
	order, err := setup.Plan(t.Context(), environment.Host{Path: b.place.Programs.Path()}, b.place.Checkout, setup.Source{})
	require.NoError(t, err)
	require.Len(t, order.Inputs, 1)
	left, err := os.ReadFile(filepath.Join(b.place.State, paths.Left))
	require.NoError(t, err)
	assert.Equal(t, order.Key(), string(left))
}

func TestSetUpThatFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, "run = 'echo reason; (sleep 1000 &); exit 3'\n")
	began := time.Now()
	built := b.build(nil)
	assert.Equal(t, "the set-up own failed: exit status 3 (`codex-runner setup --print` shows it)", built.Failure.Text)
	b.write(setup.File, "run = 'head -c 3000000 /dev/zero >../../more; exec sleep 1000'\n")
	built = b.build(func(o *Build) { o.Bytes = 2_000_000 })
	assert.Contains(t, built.Failure.Text, "what the set-up leaves takes more than 2000000 bytes: have it remove what no command needs")
	assert.Less(t, time.Since(began), 5*time.Minute)
	b.write(setup.File, "rnu = ''\n")
	assert.Contains(t, b.build(nil).Failure.Text, `unknown key "rnu"`)
	require.NoError(t, os.Remove(filepath.Join(b.origin, setup.File)))
	b.write("Makefile", "")
	built = b.build(nil)
	assert.Equal(t, Built{Version: Version}, built, "the session needs nothing beforehand")
	b.write("environment.yml", "")
	built = b.build(nil)
	assert.Equal(t, Built{Version: Version, Lacks: []string{"micromamba"}}, built)
}

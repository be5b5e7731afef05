package job

import (
	"os"
	"path/filepath"
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

// build runs the set-up of a new commit in an empty place.
func (b *setUpBed) build(change func(*Build)) Built {
	b.t.Helper()
	git(b.t, b.origin, "add", ".")
	git(b.t, b.origin, "commit", "-q", "--allow-empty", "-m", "next")
	require.NoError(b.t, os.RemoveAll(b.place.Repository))
	git(b.t, b.origin, "clone", "-q", "--bare", ".", filepath.Join(b.place.Repository, paths.Mirror))
	require.NoError(b.t, os.RemoveAll(b.place.Environments))
	for _, dir := range []string{b.place.Checkout, b.place.Home} {
		require.NoError(b.t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(b.t, os.WriteFile(filepath.Join(b.place.State, paths.Record), nil, 0o600))
	require.NoError(b.t, os.WriteFile(filepath.Join(b.place.State, paths.Left), nil, 0o600))
	order := Build{Version: Version, Bytes: 1 << 30, SetUp: &setup.Build{
		Scope:  setup.Scope{User: "1000", Repository: "r", Env: map[string]string{"B": "of the command"}},
		Commit: git(b.t, b.origin, "rev-parse", "HEAD"),
	}}
	if change != nil {
		change(&order)
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
	order, err := setup.Plan(t.Context(), environment.Host{Path: b.place.Programs.Path()}, b.origin, "")
	require.NoError(t, err)
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

	again := b.build(func(o *Build) { o.SetUp.Ready = []string{built.Key} })
	assert.Equal(t, Built{Version: Version, Key: built.Key}, again, "of another commit with the same inputs")
	assert.NoFileExists(t, filepath.Join(b.place.Checkout, "made"))
	b.write("input", "2")
	assert.NotEqual(t, built.Key, b.build(func(o *Build) { o.SetUp.Ready = []string{built.Key} }).Key)
}

// A set-up may make inputs of its own, such as a lock: the key that sessions find is by these, too.
func TestSetUpThatMakesInputs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	b := newSetUpBed(t, "run = 'echo made >made.lock'\ninputs = ['*.lock']\n")
	require.Nil(t, b.build(nil).Failure)
	order, err := setup.Plan(t.Context(), environment.Host{Path: b.place.Programs.Path()}, b.place.Checkout, "")
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
	assert.Equal(t, Built{Version: Version}, b.build(nil), "nothing fits: the session says so")
}

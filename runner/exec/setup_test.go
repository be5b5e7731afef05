package exec

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/disk"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
	"codex-proxy/runner/setup"
)

// readied is a session that wants its set-up.
type readied struct {
	t               *testing.T
	workspace, home string
	hooks           *session.Hooks
}

func newReadied(t *testing.T, file string) *readied {
	r := &readied{t: t, workspace: t.TempDir(), home: t.TempDir()}
	r.write(setup.File, file)
	r.write("input", "1")
	return r
}

func (r *readied) write(name, text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.workspace, name), []byte(text), 0o600))
}

// bed has the next command of the session.
func (r *readied) bed(script string, change func(*session.Spec)) *bed {
	r.t.Helper()
	spec := shell(script)
	spec.Environment = &session.Environment{Owner: "1000", Name: environment.Setup, Wait: patience}
	spec.Hooks = r.hooks
	if change != nil {
		change(&spec)
	}
	b := newBed(r.t, spec)
	b.Disk = disk.Files{Dirs: []string{r.workspace}}
	b.Workspace, b.Environ = r.workspace, []string{"HOME=" + r.home, "PATH=/usr/local/bin:/usr/bin:/bin"}
	return b
}

// command runs the next command, and returns its failure and its output.
func (r *readied) command(script string, change func(*session.Spec)) (*session.Failure, string) {
	r.t.Helper()
	result, output := r.bed(script, change).run(r.t.Context())
	return result.Failure, output
}

const readyFile = `run = "echo ran in $A $B >&2; mkdir -p bin; printf '#!/bin/sh\\necho tool $A' >bin/tool; chmod +x bin/tool"
inputs = ["input"]
path = ["bin"]
env = {A = "a", B = "b"}
`

// The set-up runs once in a workspace, and again when an input has changed or the workspace is new.
func TestSetup(t *testing.T) {
	r := newReadied(t, readyFile)
	r.hooks = &session.Hooks{Timeout: patience, Before: []string{"tool"}}
	failure, output := r.command("tool", nil)
	require.Nil(t, failure)
	assert.Contains(t, output, "ran in a b\n")
	assert.Contains(t, output, "tool a\ntool a\n")
	r.hooks = nil
	_, output = r.command("tool", nil)
	assert.Equal(t, "tool a\n", output, "it has run")
	_, output = r.command("tool", func(s *session.Spec) { s.Env = map[string]string{"A": "mine"} })
	assert.Equal(t, "tool mine\n", output, "what the command sets precedes")
	r.write("input", "2")
	_, output = r.command("tool", nil)
	assert.Contains(t, output, "ran in a b\n")
	result, output := r.bed("tool", func(s *session.Spec) { s.Workspace = &session.Workspace{} }).run(t.Context())
	assert.Contains(t, output, "ran in a b\n")
	assert.Equal(t, session.SnapshotStale, result.Snapshot, "the next session is to ask for one")
	_, output = r.command("tool", func(s *session.Spec) { s.Environment = nil })
	assert.Contains(t, output, "not found", "nothing of it is in other commands")
}

// An input that the set-up writes itself is no reason to run it again.
func TestSetupThatWritesAnInput(t *testing.T) {
	r := newReadied(t, "run = 'echo ran; echo locked >lock'\ninputs = ['lock', 'input']\n")
	_, output := r.command("echo command", nil)
	for _, line := range []string{"ran\n", "+ echo locked\n", "command\n"} { // two streams have no order
		assert.Contains(t, output, line)
	}
	_, output = r.command("echo command", nil)
	assert.Equal(t, "command\n", output)
	r.write("lock", "another")
	_, output = r.command("echo command", nil)
	assert.Contains(t, output, "ran\n")
}

// A set-up that fails is tried again by the next command.
func TestSetupThatFails(t *testing.T) {
	r := newReadied(t, "run = '''\necho one\ntest -e fixed\necho two\n'''\n")
	for range 2 {
		failure, output := r.command("echo command", nil)
		assert.Equal(t, &session.Failure{
			Stage: session.EnvTask,
			Text: "the set-up own failed: exit status 1 (its output is in the log, `codex-runner setup --print` shows it, " +
				"timeout of [environments] in runner.toml bounds it, and --env none leaves it out)",
		}, failure)
		assert.Contains(t, output, "+ test -e fixed\n")
		assert.NotContains(t, output, "command")
	}
	r.write("fixed", "")
	failure, output := r.command("echo command", nil)
	require.Nil(t, failure)
	assert.Contains(t, output, "two\ncommand\n")

	r.write(setup.File, "run = 'sleep 1000'\n")
	failure, _ = r.command("true", func(s *session.Spec) { s.Environment.Wait = 2 * time.Second })
	assert.Contains(t, failure.Text, "it ran for longer than 2s")
	result, _ := r.bed("true", func(s *session.Spec) { s.Disk = 1 }).run(t.Context())
	assert.Equal(t, session.DiskFull, result.Cause, "the limits of the command are those of the set-up")

	r.write(setup.File, "rnu = 'x'\n")
	failure, _ = r.command("true", nil)
	assert.Contains(t, failure.Text, `.codex-runner.toml:1: unknown key "rnu" (did you mean "run"?)`)
	require.NoError(t, os.Remove(filepath.Join(r.workspace, setup.File)))
	failure, _ = r.command("true", nil)
	assert.Contains(t, failure.Text, "no set-up fits the workspace: write .codex-runner.toml with a script")
}

// With auto, a repository without a set-up has the programs of the host, and a note says so.
func TestNoSetup(t *testing.T) {
	r := newReadied(t, "")
	require.NoError(t, os.Remove(filepath.Join(r.workspace, setup.File)))
	auto := func(s *session.Spec) { s.Environment.Name, s.Workspace = environment.Auto, &session.Workspace{} }
	result, output := r.bed("echo command", auto).run(t.Context())
	require.Nil(t, result.Failure)
	assert.Equal(t, "command\n", output)
	assert.Equal(t, "No set-up fits the repository, and the command had the programs of the host alone (.codex-runner.toml "+
		"makes one, and --env none leaves this line out).", result.Note)
	r.write("Makefile", "")
	result, _ = r.bed("true", auto).run(t.Context())
	require.Nil(t, result.Failure)
	assert.Empty(t, result.Note, "make needs nothing beforehand")
}

// With auto, the command runs without what the host has no programs for, and a note says so.
func TestSetupThatTheHostCannotDo(t *testing.T) {
	r := newReadied(t, "")
	require.NoError(t, os.Remove(filepath.Join(r.workspace, setup.File)))
	r.write("environment.yml", "")
	anew := func(name string) func(*session.Spec) {
		return func(s *session.Spec) { s.Environment.Name, s.Workspace = name, &session.Workspace{} }
	}
	result, output := r.bed("echo command", anew(environment.Auto)).run(t.Context())
	require.Nil(t, result.Failure)
	assert.Equal(t, "command\n", output)
	assert.Equal(t, "The set-up left environment.yml out: this host has no micromamba: install micromamba of conda-forge "+
		"(https://mamba.readthedocs.io) into /usr/local/bin. In runner.toml, path and toolchains of [sandbox] show sessions "+
		"what the host has elsewhere; --env none leaves the set-up out.", result.Note)
	failure, _ := r.command("true", anew(environment.Setup))
	assert.Contains(t, failure.Text, "environment.yml needs what is not there: this host has no micromamba: ")
}

// With auto, the next command of a session runs though the set-up of its changes fails, once.
func TestSetupOfChangesFails(t *testing.T) {
	r := newReadied(t, "run = 'echo ran; test ! -e broken'\ninputs = ['input']\n")
	auto := func(s *session.Spec) { s.Environment.Name = environment.Auto }
	anew := func(s *session.Spec) { auto(s); s.Workspace = &session.Workspace{} }
	result, _ := r.bed("touch broken; echo 2 >input", anew).run(t.Context())
	require.Nil(t, result.Failure)
	result, output := r.bed("echo command", auto).run(t.Context())
	require.Nil(t, result.Failure)
	assert.Contains(t, output, "ran\n")
	assert.Contains(t, result.Note, "The command ran without the set-up of what its session has changed: the set-up own failed: exit status 1")
	_, output = r.bed("echo command", auto).run(t.Context())
	assert.Equal(t, "command\n", output, "it is not tried again")
	r.write(setup.File, "rnu = 'x'\n")
	result, output = r.bed("echo command", auto).run(t.Context())
	assert.Equal(t, "command\n", output)
	assert.Contains(t, result.Note, `unknown key "rnu"`)
	failure, _ := r.command("true", anew)
	assert.Contains(t, failure.Text, `unknown key "rnu"`, "a new session has it from its commit")
}

// A set-up that the session gave counts in place of the repository's own.
func TestGivenSetup(t *testing.T) {
	r := newReadied(t, readyFile)
	_, output := r.command("true", func(s *session.Spec) { s.Environment.SetUp = "run = 'echo given'\n" })
	assert.Contains(t, output, "given\n")
	assert.NotContains(t, output, "ran in")
}

// fromSnapshot is a preparation that makes a new workspace from a snapshot that has had the set-up of a key.
type fromSnapshot string

func (fromSnapshot) Stage() session.Stage { return session.WorkspaceTask }

func (key fromSnapshot) Prepare(_ context.Context, l *Launch) error {
	l.Snapshot = string(key)
	return nil
}

// A new workspace that has what a build of the same set-up has left needs none. The result says if it has not.
func TestSetupWithASnapshot(t *testing.T) {
	r := newReadied(t, readyFile)
	programs := sandbox.Programs{Usual: "/usr/local/bin:/usr/bin:/bin"}
	order, err := setup.Plan(t.Context(), environment.Host{Path: programs.Path()}, r.workspace, setup.Source{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		key          string
		patched, ran bool
		fault        session.SnapshotFault
	}{
		"the same":  {order.Key(), false, false, ""},
		"stale":     {"another", false, true, session.SnapshotStale},
		"missing":   {"", false, true, session.SnapshotMissing},
		"patched":   {"another", true, true, ""},
		"no change": {order.Key(), true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := r.bed("true", func(s *session.Spec) {
				s.Workspace = &session.Workspace{}
				s.Environment.Snapshot = &session.Snapshot{User: "1000", Key: strings.Repeat("a", 64)}
			})
			b.Preparations = []Preparation{fromSnapshot(c.key)}
			if c.patched {
				b.Files[paths.PatchFile], err = os.Open(os.DevNull)
				require.NoError(t, err)
			}
			result, output := b.run(t.Context())
			require.Nil(t, result.Failure)
			assert.Equal(t, c.fault, result.Snapshot)
			assert.Equal(t, c.ran, strings.Contains(output, "ran in a b"), output)
			_, output = r.command("true", nil)
			assert.Empty(t, output, "the next command has it, too")
		})
	}
}

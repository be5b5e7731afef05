package codexhome

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrepareAsksCodexOnlyWhenSomethingChanged(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	full := []string{"--version", "debug models --bundled",
		"app-server --print-startup-config --strict-config", "login status"}
	f.untraced(t)
	prepare := func(why string, want []string) {
		t.Helper()
		require.NoError(t, f.Prepare(context.Background()), why)
		assert.Equal(t, want, f.runs(t), why)
	}
	prepare("first", full)
	prepare("unchanged", nil)
	prepare("unchanged", nil)

	require.NoError(t, os.WriteFile(f.File, []byte("mode = \"plain\"\nmodel = \"gpt-a\""), 0o600))
	prepare("worker file", full)
	require.NoError(t, os.Remove(f.configFile()))
	prepare("config gone", full)
	require.NoError(t, os.WriteFile(f.configFile(), []byte("model = \"other\""), 0o600))
	prepare("config edited", full)
	require.NoError(t, os.Chmod(f.configFile(), 0o644))
	prepare("config readable for others", full)
	require.NoError(t, os.WriteFile(f.catalogueFile(), []byte("{}"), 0o600))
	prepare("catalogue edited", full)
	require.NoError(t, os.WriteFile(f.stampFile(), []byte(`{"inputs":`), 0o600))
	prepare("stamp corrupt", full)
	require.NoError(t, os.WriteFile(f.authFile(), []byte(`{}`), 0o600))
	prepare("login", full)
	require.NoError(t, os.Remove(filepath.Join(f.Runtime, "codex")))
	prepare("runtime directory new", nil)
	assert.FileExists(t, filepath.Join(f.Runtime, "codex"))
}

func TestPreparedFilesAreTheOwnersOnly(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	require.NoError(t, f.Prepare(context.Background()))
	for _, path := range []string{f.configFile(), f.catalogueFile(), f.stampFile()} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), path)
	}
	left, err := filepath.Glob(filepath.Join(f.Dir, ".new-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A tool of a native worker may write links into the workspace.
func TestNativeWorkersOfAnOldCodexReadNoLinkedDocuments(t *testing.T) {
	for version, off := range map[string]bool{"0.140.0": true, "0.153.0": false} {
		f := newFake(t, `mode = "native"`)
		f.answers(t, "version", "codex-cli "+version+"\n")
		require.NoError(t, f.Prepare(context.Background()))
		text, err := os.ReadFile(f.configFile())
		require.NoError(t, err)
		assert.Equal(t, off, strings.Contains(string(text), "project_doc_max_bytes = 0"), version)
	}
}

func TestAFailedPrepareLeavesNoConfigBehind(t *testing.T) {
	for name, c := range map[string]struct {
		answer, text string
		want         string
	}{
		"too old":       {"version", "codex-cli 0.139.2\n", "codex 0.139.2 is too old: install 0.140 or later"},
		"not codex":     {"version", "hello\n", "codex does not run"},
		"no models":     {"models", `{"models":[]}`, "cannot read the models that codex lists"},
		"not logged in": {"login", "Not logged in", "codex is not logged in: run `codex-proxy accounts login w`"},
		"broken login": {"login", "Error checking login status: failed to deserialize",
			"codex cannot read its login: Error checking"},
		"refused": {"refusal",
			`{"error":{"data":{"reason":"configLoad","filePath":null,"line":null,"detail":"Model provider x not ` +
				`found"}}}`, "codex 0.169.0 refuses these settings: Model provider x not found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, `mode = "plain"`)
			require.NoError(t, f.Prepare(context.Background()))
			require.NoError(t, os.WriteFile(f.File, []byte("mode = \"plain\" # changed"), 0o600))
			f.answers(t, c.answer, c.text)
			assert.ErrorContains(t, f.Prepare(context.Background()), c.want)
			assert.NoFileExists(t, f.configFile())
			assert.NoFileExists(t, f.stampFile())
		})
	}
}

// A remote needs a codex that lists the whole of a thread after a cut turn, and whose clients come back after a restart.
func TestARemotesCodex(t *testing.T) {
	f := newFake(t, "")
	r := Remote{File: f.File, Model: "m", Provider: "p", BaseURL: "http://127.0.0.1:1", KeyName: "KEY", Directory: f.dir}
	f.answers(t, "version", "codex-cli 0.168.0\n")
	assert.ErrorContains(t, f.PrepareRemote(context.Background(), r),
		"codex 0.168.0 is too old: install 0.169 or later, `npm install -g @openai/codex@latest`")
	for _, version := range []string{"0.169.0", "0.999.1-alpha.3", "1.0.0"} { // what comes later is tried
		f.answers(t, "version", "codex-cli "+version+"\n")
		assert.NoError(t, f.PrepareRemote(context.Background(), r), version)
	}
}

// codex checks what has changed, and nothing else. A tool, which writes to the home, spares a change no check.
func TestARemoteIsCheckedWhenSomethingChanged(t *testing.T) {
	f := newFake(t, "")
	f.Private, f.Self = filepath.Join(f.dir, "private"), filepath.Join(f.dir, "codex-proxy")
	require.NoError(t, os.Mkdir(f.Private, 0o700))
	require.NoError(t, os.WriteFile(f.Self, []byte("1"), 0o700))
	r := Remote{File: f.File, Text: []byte("1"), Model: "m", Provider: "p", BaseURL: "http://127.0.0.1:1", KeyName: "KEY",
		Directory: f.dir}
	full := []string{"--version", "debug models --bundled", "app-server --print-startup-config --strict-config"}
	prepare := func(why string, want []string) {
		t.Helper()
		require.NoError(t, f.PrepareRemote(context.Background(), r), why)
		assert.Equal(t, want, f.runs(t), why)
	}
	prepare("first", full)
	prepare("unchanged", nil)
	r.Text = []byte("2")
	prepare("file", full)
	require.NoError(t, os.Chtimes(filepath.Join(f.dir, "bin/codex"), time.Time{}, time.Unix(1, 0)))
	prepare("codex", full)
	require.NoError(t, os.WriteFile(f.Self, []byte("22"), 0o700))
	prepare("codex-proxy", full)
	prepare("unchanged", nil)

	good, err := os.ReadFile(f.configFile())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(f.configFile(), []byte("sandbox_mode = \"danger-full-access\""), 0o600))
	forged := *f.Home
	forged.Private = ""
	require.NoError(t, forged.stamp(f.inputs(r.Text, filepath.Join(f.dir, "bin/codex"), f.dir), f.configFile()))
	prepare("a tool's configuration", full)
	now, err := os.ReadFile(f.configFile())
	require.NoError(t, err)
	assert.Equal(t, string(good), string(now))

	f.answers(t, "refusal", `{"error":{"data":{"reason":"configLoad","detail":"no such thing"}}}`)
	require.NoError(t, os.Chtimes(filepath.Join(f.dir, "bin/codex"), time.Time{}, time.Unix(2, 0)))
	for range 2 {
		assert.ErrorContains(t, f.PrepareRemote(context.Background(), r), "no such thing")
		assert.NoFileExists(t, f.stampFile())
	}
}

func TestABadWorkerFileLeavesNoConfigBehind(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	require.NoError(t, f.Prepare(context.Background()))
	require.NoError(t, os.WriteFile(f.File, []byte(`mdoe = "plain"`), 0o600))
	assert.ErrorContains(t, f.Prepare(context.Background()), `w.toml:1: unknown key "mdoe" (did you mean "mode"?)`)
	assert.NoFileExists(t, f.configFile())
}

func TestAnAccountsPoliciesOutOfReachAreNoConfigFault(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	f.answers(t, "refusal",
		`{"error":{"data":{"reason":"cloudConfigBundle","errorCode":"RequestFailed","detail":"Failed to load cloud `+
			`config bundle (workspace-managed policies)."}}}`)
	assert.ErrorIs(t, f.Prepare(context.Background()), ErrRetry)
}

func TestDemoNeedsNoCodex(t *testing.T) {
	h := newHome(t, t.TempDir(), `mode = "demo"`)
	require.NoError(t, h.Prepare(context.Background()))
	dest, err := os.Readlink(filepath.Join(h.Runtime, "codex"))
	require.NoError(t, err)
	assert.Equal(t, h.Self, dest)
	assert.NoFileExists(t, h.configFile())
	entries, err := os.ReadDir(filepath.Join(h.Runtime, "workspace"))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestTheWorkspaceOfANativeWorker(t *testing.T) {
	f := newFake(t, `mode = "native"`)
	require.NoError(t, f.Prepare(context.Background()))
	dest, err := os.Readlink(filepath.Join(f.Runtime, "workspace"))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(f.Dir, "workspace"), dest)

	require.NoError(t, os.WriteFile(f.File, []byte("mode = \"native\"\nworkspace = \"/nowhere\""), 0o600))
	assert.ErrorContains(t, f.Prepare(context.Background()), `w.toml:2: workspace = "/nowhere" is not a directory`)
}

func TestAProvidersKeyIsACredentialOfTheUnit(t *testing.T) {
	f := newFake(t, "mode = \"plain\"\nmodel = \"m\""+providerTable+"credential = \"key\"\n")
	assert.ErrorContains(t, f.Prepare(context.Background()),
		"w.toml:6: the unit has no credential \"key\": `systemctl edit codex-worker@w` and add [Service] "+
			"LoadCredential=key:")
	f.Credentials = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(f.Credentials, "key"), []byte("top-secret"), 0o400))
	f.answers(t, "login", "Not logged in") // which does not matter here
	require.NoError(t, f.Prepare(context.Background()))
	config, err := os.ReadFile(f.configFile())
	require.NoError(t, err)
	assert.Contains(t, string(config), filepath.Join(f.Credentials, "key"))
	assert.NotContains(t, string(config), "top-secret")
}

func TestARunOfCodexIsBounded(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	c := codex{path: filepath.Join(f.SearchPath, "codex"), home: f.Dir, dir: f.Runtime, limit: 100 * time.Millisecond}
	_, _, err := c.run(context.Background(), "hang")
	assert.ErrorIs(t, err, ErrRetry)
	assert.ErrorContains(t, err, "`codex hang` did not finish within 100ms")
}

// Only systemd knows how long a start may take on a machine.
func TestOnlyTheContextBoundsARunWithoutALimit(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	slow := errors.New("the start took too long")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, slow)
	defer cancel()
	c := codex{path: filepath.Join(f.SearchPath, "codex"), home: f.Dir, dir: f.Runtime}
	_, _, err := c.run(ctx, "hang")
	assert.ErrorIs(t, err, slow)
	assert.Regexp(t, "`codex hang` was stopped after .*s: the start took too long", err)
	assert.True(t, wasStopped(err), "it is no evidence about the home")
}

func TestAStoppedPrepareIsNotTheOperatorsFault(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f := newFake(t, `mode = "plain"`)
	assert.ErrorIs(t, f.Prepare(ctx), context.Canceled)
}

// SIGTERM may be blocked only for a worker whose codex starts no programs.
func TestNoTools(t *testing.T) {
	f := newFake(t, `mode = "plain"`)
	require.NoError(t, f.Prepare(context.Background()))
	assert.FileExists(t, filepath.Join(f.Runtime, "no-tools"))
	require.NoError(t, os.WriteFile(f.File, []byte(`mode = "native"`), 0o600))
	require.NoError(t, f.Prepare(context.Background()))
	assert.NoFileExists(t, filepath.Join(f.Runtime, "no-tools"))
}

package codexhome

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/versions"
	"codex-proxy/test/codexes"

	"codex-proxy/test/modelserver"
)

// realHome is a home for the codex that the environment names.
func realHome(t *testing.T, worker string) *Home {
	t.Helper()
	program := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if program == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX names no codex")
	}
	// Not below /tmp, which tools may read.
	dir, err := os.MkdirTemp("/var/tmp", "codexhome-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return newHome(t, dir, fmt.Sprintf("codex_path = %q\n%s", program, worker))
}

// codexOf runs the prepared program, in the prepared directory, as the unit would.
func codexOf(ctx context.Context, h *Home, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(h.Runtime, "codex"), args...)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+h.Dir)
	cmd.Dir = filepath.Join(h.Runtime, "workspace")
	return cmd
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (h *Home) logIn(t *testing.T) {
	t.Helper()
	program := os.Getenv("CODEX_PROXY_TEST_CODEX")
	cmd := exec.CommandContext(bounded(t), program, "login", "--with-api-key")
	cmd.Env = append(os.Environ(), "CODEX_HOME="+h.Dir)
	cmd.Stdin = strings.NewReader("sk-test")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestRealCodexTakesEachMode(t *testing.T) {
	for _, mode := range []string{"plain", "native"} {
		t.Run(mode, func(t *testing.T) {
			h := realHome(t, fmt.Sprintf("mode = %q\n", mode))
			err := h.Prepare(bounded(t))
			var problem *Problem
			require.ErrorAs(t, err, &problem)
			assert.ErrorContains(t, err, "codex is not logged in: run `codex-proxy accounts login w`")
			assert.NoFileExists(t, h.configFile())

			h.logIn(t)
			require.NoError(t, h.Prepare(bounded(t)))
			out, err := codexOf(bounded(t), h, "app-server", "--strict-config").CombinedOutput()
			assert.NoError(t, err, string(out))
			assert.True(t, h.fresh(h.inputsNow(t)), "a start of codex changes nothing that was written")

			start := time.Now()
			require.NoError(t, h.Prepare(bounded(t)))
			t.Logf("unchanged: %s", time.Since(start))
		})
	}
}

func (h *Home) inputsNow(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile(h.File)
	require.NoError(t, err)
	program, err := os.Readlink(filepath.Join(h.Runtime, "codex"))
	require.NoError(t, err)
	workspace, err := os.Readlink(filepath.Join(h.Runtime, "workspace"))
	require.NoError(t, err)
	return h.inputs(doc, program, workspace)
}

func TestRealCodexSendsAPlainWorkersRequestAndNothingElse(t *testing.T) {
	models := modelserver.Start(t)
	require.NoError(t, models.Script("text hello"))
	h := realHome(t, "mode = \"plain\"\nmodel = \"test-model\"\n[provider]\nname = \"local\"\ncredential = \"key\"\n"+
		"base_url = \""+models.URL()+"/v1\"\n")
	h.Credentials = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(h.Credentials, "key"), []byte("sk-secret\n"), 0o400))
	require.NoError(t, h.Prepare(bounded(t)))
	out, err := codexOf(bounded(t), h, "exec", "--skip-git-repo-check", "--json", "hi").CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), `"text":"hello"`)

	turns := models.Turns()
	require.Len(t, turns, 1)
	assert.Less(t, turns[0].Bytes, 2048)
	assert.Equal(t, "test-model", turns[0].Body.Model)
	assert.Len(t, turns[0].Body.Input, 1, "the user's message and nothing else")
	assert.Empty(t, turns[0].Body.Instructions)
	assert.Empty(t, turns[0].Body.Tools)
	assert.Equal(t, "Bearer sk-secret", turns[0].Header.Get("Authorization"))
}

func TestRealCodexRefusesWhatTheOperatorWrote(t *testing.T) {
	for name, c := range map[string]struct{ codex, want string }{
		"key": {"modle = 1", `w.toml:6: unknown key "modle" in [codex]`},
		"feature": {"model_reasoning_effort = \"low\"\n[codex.features]\nhooks = false\nnope = false",
			`w.toml:9: unknown key "features.nope" in [codex]`},
		"inline":   {"features = { nope = true }", `w.toml:6: unknown key "features.nope" in [codex]`},
		"type":     {"approval_policy = 3", `w.toml:6: codex`},
		"variant":  {"approval_policy = \"bogus\"", "refuses \"approval_policy\": unknown variant `bogus`"},
		"over our": {"[codex.history]\npersistence = 3", `w.toml:7: codex`},
		"provider": {"model_provider = \"nope\"", "Model provider `nope` not found"},
	} {
		t.Run(name, func(t *testing.T) {
			h := realHome(t, "\n\nmode = \"plain\"\n[codex]\n"+c.codex)
			link := filepath.Join(filepath.Dir(h.Dir), "link") // as that of a dynamic user
			require.NoError(t, os.Symlink(h.Dir, link))
			h.Dir = link
			err := h.Prepare(bounded(t))
			var problem *Problem
			require.ErrorAs(t, err, &problem)
			t.Log(err)
			assert.ErrorContains(t, err, c.want)
			assert.True(t, strings.HasPrefix(err.Error(), h.File))
			assert.NotContains(t, err.Error(), h.configFile())
			assert.NoFileExists(t, h.configFile())
		})
	}
}

// A worker whose login another unit keeps starts without one.
func TestRealCodexWithoutItsLogin(t *testing.T) {
	for _, mode := range []string{"plain", "native"} {
		h := realHome(t, fmt.Sprintf("network = \"model\"\nmode = %q\n", mode))
		h.Broker = "127.0.0.1:1"
		require.NoError(t, h.Prepare(bounded(t)), mode)
		assert.Empty(t, loginIn(h.Dir))
	}
}

func TestOlderCodexesWithoutTheirLogin(t *testing.T) {
	codexes.Older(t, versions.Oldest, map[string]func(*testing.T){"no login": TestRealCodexWithoutItsLogin})
}

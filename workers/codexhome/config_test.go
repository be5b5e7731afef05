package codexhome

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

const providerTable = "\n[provider]\nname = \"local\"\nbase_url = \"http://127.0.0.1:8000/v1\"\n"

// shippedUncommented is default.toml with its commented keys in force.
func shippedUncommented(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "packaging", "etc", "workers", "default.toml"))
	require.NoError(t, err)
	text := regexp.MustCompile(`(?m)^# (\[?[a-z_]+\]?( = .*)?)$`).ReplaceAllString(string(doc), "$1")
	text = strings.Replace(text, `mode = "plain"`, `mode = "native"`, 1)
	return strings.Replace(text, `model = ""`, `model = "m"`, 1)
}

func TestConfigsAreGolden(t *testing.T) {
	for name, doc := range map[string]string{
		"plain":    `mode = "plain"`,
		"native":   "mode = \"native\"\nmodel = \"gpt-a\"",
		"provider": "mode = \"plain\"\nmodel = \"qwen\"" + providerTable + "credential = \"key\"\n",
		"merged": "mode = \"native\"\n[codex]\nsandbox_mode = \"workspace-write\"\n[codex.features]\nhooks = true\n" +
			"[codex.mcp_servers.x]\ncommand = \"/bin/x\"\nargs = [\"a\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			w, err := parse("/etc/codex-proxy/workers/w.toml", []byte(doc))
			require.NoError(t, err)
			catalogue, keyFile := "", ""
			if w.hasCatalogue() {
				catalogue = "/var/lib/codex-worker/w/model-catalogue.json"
			}
			if w.Provider != nil {
				keyFile = "/run/credentials/codex-worker@w.service/" + w.Provider.Credential
			}
			h := Home{File: w.File, Dir: "/var/lib/codex-worker/w", Runtime: "/run/codex-worker/w"}
			program := codex{path: "/usr/bin/codex", dir: h.Dir + "/workspace"}
			got, err := render(w.File, w.config((&preparation{&h, w, program}).confined(w.base(catalogue, keyFile)), nil))
			require.NoError(t, err)
			got = bytes.ReplaceAll(got, fmt.Appendf(nil, "daemon-%d", os.Getuid()), []byte("daemon-UID"))
			golden(t, name+".toml", got)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestAnUnknownSettingIsLeftOutWithItsOlderName(t *testing.T) {
	w, err := parse("/w.toml", []byte(`mode = "plain"`))
	require.NoError(t, err)
	base := w.base("", "")
	c := w.config(base, []string{"agents", "cloud", "features.view_image"})
	assert.NotContains(t, c, "agents")
	assert.NotContains(t, c, "cloud")
	assert.Equal(t, false, c["features"].(settings)["multi_agent"])
	assert.NotContains(t, c["features"], "view_image")
	assert.Contains(t, base, "agents", "the base is shared by every try")
}

func TestWhatKeepsAWorkerSafeIsNeverLeftOut(t *testing.T) {
	w, err := parse("/w.toml", []byte("mode = \"plain\"\n[codex.tools]\nx = 1"))
	require.NoError(t, err)
	for _, key := range []string{"", "sandbox_mode", "default_permissions", "permissions.worker.filesystem", "features",
		"features.shell_tool",
		"model_providers.local.auth", "tools", "tools.x"} {
		assert.False(t, w.dispensable(key), key)
	}
	for _, key := range []string{"features.hooks", "cloud", "agents", "tools.update_plan"} {
		assert.True(t, w.dispensable(key), key)
	}
}

func TestWhoNeedsALogin(t *testing.T) {
	for doc, want := range map[string]bool{
		`mode = "plain"`: true,
		"mode = \"native\"\nmodel = \"m\"" +
			providerTable: false,
		"mode = \"native\"\nmodel = \"m\"" + providerTable +
			"[codex.model_providers.local]\nrequires_openai_auth = true\n": true,
		"mode = \"native\"\n[codex]\nmodel_provider = \"x\"\n[codex.model_providers.x]\nname = \"x\"\n": false,
		"mode = \"native\"\n[codex]\nmodel_provider = \"x\"\n[codex.model_providers.x]\nname = \"x\"\n" +
			"requires_openai_auth = true\n": true,
	} {
		w, err := parse("/w.toml", []byte(doc))
		require.NoError(t, err)
		assert.Equal(t, want, needsLogin(w.config(w.base("", ""), nil)), doc)
	}
}

func TestCatalogues(t *testing.T) {
	const bundled = `{"models":[
		{"slug":"gpt-a","shell_type":"unified_exec","base_instructions":"long","new_field":7},
		{"slug":"gpt-b","shell_type":"unified_exec"}]}`
	for name, c := range map[string]struct {
		doc   string
		slugs []string
		shell string
	}{
		"plain":          {`mode = "plain"`, []string{"gpt-a", "gpt-b"}, "disabled"},
		"plain, new one": {"mode = \"plain\"\nmodel = \"gpt-c\"", []string{"gpt-a", "gpt-b", "gpt-c"}, "disabled"},
		"plain, known":   {"mode = \"plain\"\nmodel = \"gpt-b\"", []string{"gpt-a", "gpt-b"}, "disabled"},
		"provider": {"mode = \"plain\"\nmodel = \"qwen\"" + providerTable + "models = [\"gpt-a\", \"qwen\"]\n",
			[]string{"qwen", "gpt-a"}, "disabled"},
		"native provider": {"mode = \"native\"\nmodel = \"gpt-a\"" + providerTable, []string{"gpt-a"}, "unified_exec"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := parse("/w.toml", []byte(c.doc))
			require.NoError(t, err)
			raw, err := w.catalogue([]byte(bundled))
			require.NoError(t, err)
			var got struct{ Models []map[string]any }
			require.NoError(t, json.Unmarshal(raw, &got))
			var slugs []string
			for _, m := range got.Models {
				slugs = append(slugs, m["slug"].(string))
				assert.Equal(t, c.shell, m["shell_type"])
			}
			assert.Equal(t, c.slugs, slugs)
		})
	}
}

func TestCatalogueOfABadList(t *testing.T) {
	w, err := parse("/w.toml", []byte(`mode = "plain"`))
	require.NoError(t, err)
	_, err = w.catalogue([]byte(`{"models":[]}`))
	assert.EqualError(t, err, "cannot read the models that codex lists: `codex debug models` printed none")
	_, err = w.catalogue([]byte("{"))
	assert.EqualError(t, err, "cannot read the models that codex lists: unexpected end of JSON input")
}

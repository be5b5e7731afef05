package codexhome

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// filesOf are the rules of the profile of a worker file.
func filesOf(t *testing.T, doc, program, workspace string) (rules map[string][]string, network any) {
	t.Helper()
	w, err := parse("/etc/codex-proxy/workers/w.toml", []byte(doc))
	require.NoError(t, err)
	h := Home{File: w.File, Dir: "/var/lib/codex-worker/w", Runtime: "/run/codex-worker/w"}
	c := w.config((&preparation{&h, w, codex{path: program, dir: workspace}}).confined(w.base("", "")), nil)
	assert.NotContains(t, c, "sandbox_mode", "codex would ignore the profile")
	assert.NotContains(t, c, "sandbox_workspace_write")
	profile := c["permissions"].(settings)["worker"].(settings)
	rules = map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(profile["filesystem"].(settings))) {
		access := profile["filesystem"].(settings)[path].(string)
		rules[access] = append(rules[access], path)
	}
	return rules, profile["network"].(settings)["enabled"]
}

func TestTheSandboxModeIsPartOfTheProfile(t *testing.T) {
	const own, usr = "/var/lib/codex-worker/w/workspace", "/usr/bin/codex"
	const native = "mode = \"native\"\n[codex]\n"
	for name, c := range map[string]struct {
		doc     string
		write   []string
		network bool
	}{
		"default":                   {native, nil, false},
		"read-only":                 {native + "sandbox_mode = \"read-only\"", nil, false},
		"read-only, with the table": {native + "sandbox_workspace_write = { network_access = true }", nil, false},
		"write":                     {native + "sandbox_mode = \"workspace-write\"", []string{"/tmp", own}, false},
		"write more": {native + "sandbox_mode = \"workspace-write\"\n[codex.sandbox_workspace_write]\n" +
			"writable_roots = [\"/srv/x\"]\nnetwork_access = true\nexclude_slash_tmp = true\n" +
			"exclude_tmpdir_env_var = true", []string{"/srv/x", own}, true},
		"opened": {native + "[codex.permissions.worker.filesystem]\n\"/data\" = \"write\"",
			[]string{"/data"}, false},
		"no commands":       {native + "features = { shell_tool = false, unified_exec = false }", nil, false},
		"plain with a tool": {"mode = \"plain\"\n[codex.features]\nshell_tool = true\n", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			rules, network := filesOf(t, c.doc, usr, own)
			assert.Equal(t, c.write, rules["write"])
			assert.Equal(t, c.network, network)
		})
	}
}

func TestASandboxModeThatShowsTheLoginIsRefused(t *testing.T) {
	const write = "sandbox_mode = \"workspace-write\"\n"
	for doc, want := range map[string]string{
		`sandbox_mode = "danger-full-access"`: `3: sandbox_mode = "danger-full-access" would show the worker's login ` +
			`to the model's tools: choose "read-only" or "workspace-write"; [codex.permissions.worker.filesystem] ` +
			"opens more directories",
		`sandbox_mode = "open"`: `3: unknown sandbox_mode "open": choose`,
		`sandbox_mode = 3`:      `3: unknown sandbox_mode 3: choose`,
		write + "[codex.sandbox_workspace_write]\nwritable_root = []": `4: sandbox_workspace_write: unknown key ` +
			`"writable_root" (did you mean "writable_roots"?): correct or remove it`,
		write + "sandbox_workspace_write = 3": `4: sandbox_workspace_write: `,
	} {
		_, err := parse("/w.toml", []byte("mode = \"native\"\n[codex]\n"+doc))
		var problem *Problem
		require.ErrorAs(t, err, &problem, doc)
		assert.True(t, strings.HasPrefix(err.Error(), "/w.toml:"+want), "got %s", err)
	}
}

// A directory without a rule is absent from the sandbox.
func TestSecretsInAShownDirectoryAreDenied(t *testing.T) {
	daemon := fmt.Sprintf("/tmp/codex-daemon-%d", os.Getuid())
	always := slices.Clip([]string{"/etc/codex-proxy", "/etc/systemd", daemon})
	all := append(always, "/run/codex-proxy", "/run/credentials",
		"/var/lib/codex-worker", "/var/lib/private")
	for workspace, denied := range map[string][]string{
		"/":                                 all,
		"/var":                              append(always, "/var/lib/codex-worker", "/var/lib/private"),
		"/run":                              append(always, "/run/codex-proxy", "/run/credentials"),
		"/srv/code":                         always,
		"/var/lib/codex-worker/w/workspace": always,
		"/var/lib/codex-worker/w/code/x":    always,
	} {
		rules, _ := filesOf(t, `mode = "native"`, "/usr/bin/codex", workspace)
		assert.ElementsMatch(t, denied, rules["deny"], workspace)
		assert.Contains(t, rules["read"], workspace)
	}
	rules, _ := filesOf(t, "mode = \"native\"\n[codex]\nsandbox_mode = \"workspace-write\"\n"+
		"sandbox_workspace_write = { writable_roots = [\"/run/credentials/x\", \"/var/lib\"] }",
		"/usr/bin/codex", "/srv")
	assert.Contains(t, rules["deny"], "/var/lib/codex-worker")
}

// A fake whose sandbox prints a file is one that shows it.
func TestAProfileThatShowsTheLoginIsRefused(t *testing.T) {
	f := newFake(t, "mode = \"native\"\n[codex]\ndefault_permissions = \"mine\"\n")
	require.NoError(t, f.Prepare(t.Context()))
	assert.Contains(t, f.runs(t), "sandbox -- /bin/sh -c "+lookFor+" sh "+f.configFile())
	require.NoError(t, os.Remove(f.stampFile()))
	f.answers(t, "sandbox", f.configFile()+"\n")
	err := f.Prepare(t.Context())
	assert.EqualError(t, err, f.File+":3: codex's tools could reach "+f.configFile()+", and so the worker's login: "+
		"name another workspace, take default_permissions and the permissions that open it out of [codex], and "+
		"sandbox_mode out of /etc/codex/config.toml")
	assert.NoFileExists(t, f.configFile())
}

// A machine may allow no sandbox. Then codex starts no thread, and the fault has a remedy.
func TestASandboxThatDoesNotRunIsAFault(t *testing.T) {
	f := newFake(t, `mode = "native"`)
	f.answers(t, "nosandbox", "Sandbox(SeccompInstall)")
	assert.ErrorContains(t, f.Prepare(t.Context()), f.File+":1: codex cannot run a command in its sandbox "+
		"(exit status 1): Sandbox(SeccompInstall): install codex with its resources")
	assert.NoFileExists(t, f.configFile())
}

// The real codex hides the home from tools, and worker-prepare refuses settings that do not.
func TestRealCodexHidesTheHomeFromTools(t *testing.T) {
	const provider = "model = \"m\"\n[provider]\nname = \"local\"\nbase_url = \"http://127.0.0.1:9/v1\"\n"
	const look = `cat "$1/config.toml" "$1/auth.json"; cat made; echo "HOME $HOME"`
	for name, c := range map[string]struct {
		codex string
		write bool
		fault string
	}{
		"read-only": {"", false, ""},
		"write":     {"[codex]\nsandbox_mode = \"workspace-write\"\n", true, ""},
		"another":   {"[codex]\ndefault_permissions = \":read-only\"\n", false, ":8: codex's tools could reach "},
		"opened":    {"[codex.permissions.worker.filesystem]\n\"/\" = \"read\"\n", false, "could reach "},
		"opened for the network": {"[codex.permissions.worker.filesystem]\n\"/var\" = \"write\"\n" +
			"[codex.permissions.worker.network]\nenabled = true\n", false, "could reach "},
		"overridden": {"[codex.permissions.worker.filesystem]\n\"/var/tmp\" = \"read\"\n", false, "could reach "},
	} {
		t.Run(name, func(t *testing.T) {
			h := realHome(t, "mode = \"native\"\n"+provider+c.codex)
			require.NoError(t, os.WriteFile(h.authFile(), []byte(`{"OPENAI_API_KEY":"sk-secret"}`), 0o600))
			err := h.Prepare(bounded(t))
			if c.fault != "" {
				assert.ErrorContains(t, err, c.fault)
				assert.NoFileExists(t, h.configFile())
				return
			}
			require.NoError(t, err)
			workspace := filepath.Join(h.Dir, "workspace")
			require.NoError(t, os.WriteFile(filepath.Join(workspace, "made"), []byte("here\n"), 0o600))
			out, _ := codexOf(bounded(t), h, "sandbox", "--", "/bin/sh", "-c", look+"; echo new >made", "sh", h.Dir).
				CombinedOutput()
			assert.Contains(t, string(out), "here\n")
			assert.NotContains(t, string(out), "sk-secret")
			assert.NotContains(t, string(out), "approval_policy")
			made, err := os.ReadFile(filepath.Join(workspace, "made"))
			require.NoError(t, err)
			assert.Equal(t, c.write, string(made) == "new\n", string(out))
		})
	}
}

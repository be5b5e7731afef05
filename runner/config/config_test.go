package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/strict"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/repositories"
	"codex-proxy/runner/workspace"
)

func load(t *testing.T, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runner.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return Load(path)
}

// The shipped file says what the defaults are: with all keys in use it changes nothing.
func TestShippedFile(t *testing.T) {
	shipped, err := os.ReadFile("../../packaging/runner/runner.toml")
	require.NoError(t, err)
	var used strings.Builder
	for line := range strings.Lines(string(shipped)) {
		if key, isKey := strings.CutPrefix(line, "#"); isKey && !strings.HasPrefix(key, " ") && strings.Contains(key, " = ") {
			line = key
		}
		used.WriteString(line)
	}
	want, err := Load(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	for _, text := range []string{string(shipped), used.String()} {
		got, err := load(t, text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, key := range strict.Keys(raw{}) {
		name := key[strings.LastIndexByte(key, '.')+1:]
		shown := false
		for _, form := range []string{"%s = ", "[%s]\n", "#  %s = ", "#  [[%s]]\n"} { // the last two of lists of tables
			shown = shown || strings.Contains(used.String(), "\n"+fmt.Sprintf(form, name))
		}
		assert.True(t, shown, key)
	}
}

func TestValues(t *testing.T) {
	got, err := load(t, "max_sessions = 2\nadmins = [\"alice\"]\n[default]\nmemory = \"30M\"\ncpus = 1.5\ntimeout = \"90s\"\n")
	require.NoError(t, err)
	assert.Equal(t, 2, got.MaxSessions)
	assert.Equal(t, []string{"alice"}, got.Admins)
	assert.EqualValues(t, 30<<20, got.Limits.Default.Memory)
	assert.InDelta(t, 1.5, got.Limits.Default.CPUs, 0)
	assert.Equal(t, wire.Duration(90*time.Second), got.Limits.Default.Timeout)
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"max_session = 2":                     `runner.toml:1: unknown key "max_session" (did you mean "max_sessions"?)`,
		"\nidle_timeout = 5":                  `runner.toml:2: `,
		"idle_timeout = \"5\"":                `runner.toml:1: idle_timeout: "5" is not a duration such as`,
		"[default]\nmemory = \"2X\"":          `runner.toml:2: default.memory: "2X" is not a size such as`,
		"[default]\nmemory = \"2GG\"":         `"2GG" is not a size`,
		"[default]\nmemory = \"9999999999T\"": `is not a size`,
		"[default]\nmemory = \"\"":            `"" is not a size`,
		"log_level = \"loud\"":                `"loud" is not a log level`,
		"[hooks]\nbefore = [\"x\"]":           `hooks.before begins with "x": use the absolute path`,
		"[hooks]\ntimeout = \"11m\"":          "hooks.timeout is 11m0s: use a time up to 10m0s",
		"max_sessions = 0":                    "runner.toml:1: max_sessions is 0: use 1 to 1000",
		"workspaces = 1":                      "runner.toml:1: workspaces is 1: use max_sessions (8) to 9999",
		"max_queued = -1":                     "max_queued is -1: use 1 to 100000",
		"retention = \"0s\"":                  "retention is 0s: use a time above 0",
		"idle_timeout = \"-1s\"":              "idle_timeout is -1s: use",
		"[default]\ntimeout = \"0s\"":         "runner.toml:2: default.timeout and default.output must be above 0",
		"[repositories]\nmax_count = 0":       "repositories.max_count is 0: use 1 to 10000",
		"[repositories]\nsize = \"30G\"":      "as much for max_bytes",
		"[repositories]\ntimeout = \"2h\"":    "repositories.timeout is 2h0m0s: use a time above 0 and up to 1h0m0s",
		"[maximum]\nmemory = \"1G\"":          "[default]: limits.memory is out of range",
		"[environments]\nstore = \"wheels\"":  `environments.store is "wheels": use an absolute path`,
		"[environments]\nstore = \"/home/x\"": "sessions and builds do not see files below /home",
		"[environments]\nmax_bytes = \"0\"":   "environments.max_bytes is 0",
		"[environments]\ntimeout = \"1h\"":    "environments.timeout is 1h0m0s: use a time up to 50m",
		"[environments]\nnetwork = \"some\"":  `runner.toml:2: environments.network: "some" is not one of all, online and none`,
	} {
		_, err := load(t, text)
		assert.ErrorContains(t, err, want)
	}
	_, err := Load(t.TempDir())
	assert.ErrorContains(t, err, "cannot read the settings: ")
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	secret, open := write("secret", 0o640), write("open", 0o644)
	got, err := load(t, fmt.Sprintf("[[credentials]]\nurl = \"https://h/\"\ngit_credentials = %q\nusers = [\"alice\"]\n"+
		"[[credentials]]\nurl = \"git@h:\"\nssh_key = %[1]q\nssh_known_hosts = %[1]q\n", secret))
	require.NoError(t, err)
	assert.Equal(t, []repositories.Credential{
		{URL: "https://h/", Users: []string{"alice"}, Files: map[string]string{workspace.GitCredentials: secret}},
		{URL: "git@h:", Files: map[string]string{workspace.SSHKey: secret, workspace.SSHKnownHosts: secret}},
	}, got.Repositories.Credentials)
	for text, want := range map[string]string{
		`url = "https://h"`:                                         "runner.toml:1: [[credentials]] 1: url is \"https://h\": begin with https://HOST/",
		`url = "file:///"`:                                          "begin with https://HOST/",
		`url = "https://h/"`:                                        "https://h/ has no credential: name git_credentials or ssh_key",
		"url = \"git@h:\"\nssh_key = \"" + secret + `"`:             "git@h: has an ssh_key without ssh_known_hosts",
		"url = \"https://h/\"\ngit_credentials = \"secret\"":        "has no absolute path",
		"url = \"https://h/\"\ngit_credentials = \"" + open + `"`:   "every user can read " + open + ": chmod o= " + open,
		"url = \"https://h/\"\ngit_credentials = \"" + dir + `/no"`: "no such file",
		"url = \"https://h/\"\ngit_credentials = \"" + dir + `"`:    "is no file",
	} {
		_, err := load(t, "[[credentials]]\n"+text)
		assert.ErrorContains(t, err, want)
	}
}

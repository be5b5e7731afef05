package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/strict"
	"codex-proxy/runner/api/wire"
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
		assert.True(t, strings.Contains(used.String(), "\n"+name+" = ") || strings.Contains(used.String(), "\n["+name+"]\n"), key)
	}
}

func TestValues(t *testing.T) {
	got, err := load(t, "max_sessions = 2\nadmins = [\"alice\"]\n[default]\nmemory = \"3M\"\ncpus = 1.5\ntimeout = \"90s\"\n")
	require.NoError(t, err)
	assert.Equal(t, 2, got.MaxSessions)
	assert.Equal(t, []string{"alice"}, got.Admins)
	assert.EqualValues(t, 3<<20, got.Limits.Default.Memory)
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
		"max_sessions = 0":                    "runner.toml:1: max_sessions is 0: use 1 to 1000",
		"workspaces = 1":                      "runner.toml:1: workspaces is 1: use max_sessions (8) to 9999",
		"max_queued = -1":                     "max_queued is -1: use 1 to 100000",
		"retention = \"0s\"":                  "retention is 0s: use a time above 0",
		"idle_timeout = \"-1s\"":              "idle_timeout is -1s: use",
		"[default]\ntimeout = \"0s\"":         "runner.toml:2: default.timeout and default.output must be above 0",
		"[maximum]\nmemory = \"1G\"":          "[default] does not fit [maximum]: limits.memory is out of range",
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

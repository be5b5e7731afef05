package codexhome

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const handsFile = "mode = \"native\"\nnetwork = \"model\"\n[hands]\nrunner = true\nrepo = \"https://example.org/app.git\"\n"

func TestHands(t *testing.T) {
	w, err := parse("/w.toml", []byte(handsFile+"memory = \"4G\"\nsessions = 3\nidle = \"10m\"\n"))
	require.NoError(t, err)
	assert.Equal(t, int64(4<<30), w.Hands.Memory)
	assert.Equal(t, []int{3, 3}, []int{w.Hands.Sessions, w.Hands.KeySessions})
	assert.Equal(t, 10*time.Minute, w.Hands.Idle)
	c := w.base("", "")
	assert.Equal(t, "danger-full-access", c["sandbox_mode"])
	assert.Equal(t, "never", c["approval_policy"])
	w, err = parse("/w.toml", []byte(handsFile))
	require.NoError(t, err)
	assert.Equal(t, []int{8, 8}, []int{w.Hands.Sessions, w.Hands.KeySessions})
	assert.Equal(t, time.Hour, w.Hands.Idle)
}

func TestRefusedHands(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"url":       {handsFile + "url = \"wss://x/\"\n", "/w.toml:6: hands.url: an exec-server elsewhere has one workspace"},
		"runner":    {strings.Replace(handsFile, "true", "false", 1), "/w.toml:4: hands.runner: is missing: set runner = true"},
		"plain":     {strings.Replace(handsFile, "native", "plain", 1), "/w.toml:1: mode: a worker without tools"},
		"network":   {strings.Replace(handsFile, "\"model\"", "\"host\"", 1), "/w.toml:2: network: codex reaches the model"},
		"workspace": {"workspace = \"/srv\"\n" + handsFile, "/w.toml:1: workspace: commands work in the checkout"},
		"repo":      {strings.Replace(handsFile, "https://example.org/app.git", "app", 1), "/w.toml:5: hands.repo: \"app\" is neither"},
		"sessions":  {handsFile + "sessions = 65\n", "/w.toml:6: hands.sessions: 65 must be between 1 and 64"},
		"of a key":  {handsFile + "key_sessions = -1\n", "/w.toml:6: hands.key_sessions: -1 must be between"},
		"idle":      {handsFile + "idle = \"1000h\"\n", "/w.toml:6: hands.idle: "},
		"memory":    {handsFile + "memory = \"much\"\n", "/w.toml:6: hands.memory: \"much\" is not a size"},
		"sandbox":   {handsFile + "[codex]\nsandbox_mode = \"read-only\"\n", "/w.toml:7: codex.sandbox_mode: the session is the sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("/w.toml", []byte(c.doc))
			var problem *Problem
			require.ErrorAs(t, err, &problem)
			assert.True(t, strings.HasPrefix(err.Error(), c.want), "got %s", err)
		})
	}
}

// A file of the operator stays; ours goes with the table.
func TestEnvironments(t *testing.T) {
	h := &Home{Dir: t.TempDir()}
	file := filepath.Join(h.Dir, "environments.toml")
	require.NoError(t, h.environments(&Worker{Hands: &Hands{}}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(text), "\ninclude_local = false\n"))
	require.NoError(t, h.environments(&Worker{}))
	assert.NoFileExists(t, file)
	require.NoError(t, os.WriteFile(file, []byte("include_local = true\n"), 0o600))
	require.NoError(t, h.environments(&Worker{}))
	assert.FileExists(t, file)
}

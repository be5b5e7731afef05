package sessions

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
)

// A command that misses a program of its caller gets the hint: one that is not found, a line of a shell, and an
// environment without its tool.
func TestOwnProgram(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", "/usr/bin")
	require.NoError(t, os.MkdirAll(home+"/.local/bin", 0o755))
	require.NoError(t, os.WriteFile(home+"/.local/bin/uv", nil, 0o755))
	uv := []string{"uv", "sync"}
	for name, c := range map[string]struct {
		args []string
		o    outcome.Outcome
		want bool
	}{
		"not found":     {uv, outcome.Outcome{Word: outcome.CommandNotFound}, true},
		"line":          {[]string{"sh", "-c", "cd x;uv sync"}, outcome.Outcome{Word: outcome.Failed, Status: 127}, true},
		"other line":    {[]string{"sh", "-c", "ls; nosuch"}, outcome.Outcome{Word: outcome.Failed, Status: 127}, false},
		"other status":  {[]string{"sh", "-c", "uv sync"}, outcome.Outcome{Word: outcome.Failed, Status: 1}, false},
		"environment":   {[]string{"x"}, outcome.Outcome{Word: outcome.EnvironmentFailed, Text: "this host has no uv: install uv from PyPI (pip install uv) into /usr/local/bin."}, true},
		"set-up":        {[]string{"x"}, outcome.Outcome{Word: outcome.Succeeded, Note: "The set-up left uv.lock out: this host has no uv: install uv from PyPI (pip install uv) into /usr/local/bin."}, true},
		"other failure": {uv, outcome.Outcome{Word: outcome.EnvironmentFailed, Text: "no disk"}, false},
		"success":       {uv, outcome.Outcome{Word: outcome.Succeeded}, false},
	} {
		got := OwnProgram(wire.Command{Args: c.args, Outcome: &c.o})
		assert.Equal(t, c.want, got != "", "%s: %s", name, got)
	}
	assert.Empty(t, OwnProgram(wire.Command{Args: uv}), "it runs")
}

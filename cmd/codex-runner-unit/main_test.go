package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// The unit files run every step, each with its argument.
func TestUnitsRunTheSteps(t *testing.T) {
	files, err := filepath.Glob("../../packaging/systemd/codex-*.service")
	require.NoError(t, err)
	run := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			_, command, found := strings.Cut(strings.TrimSpace(line), paths.UnitProgram+" ")
			if !found {
				continue
			}
			name, _, err := parse(strings.Fields(command))
			require.NoError(t, err, "%s: %s", file, line)
			run[name] = true
		}
	}
	run[session.DiffStep] = true // a command of a session
	for name := range steps {
		assert.True(t, run[name], "no unit runs %s", name)
	}
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"":                          "codex-runner-unit: the name of a step is missing; systemctl cat",
		"session":                   `codex-runner-unit: there is no step "session"; `,
		"session-prepare":           "codex-runner-unit: session-prepare takes one argument, ID; ",
		"session-exec x":            "codex-runner-unit: session-exec takes no argument; ",
		"repository-prepare ../x":   "codex-runner-unit repository-prepare: ",
		"environment-build x extra": "codex-runner-unit: environment-build takes one argument, KEY; ",
		"session-ended ../../etc":   "codex-runner-unit session-ended: ",
		"sweep everything":          "codex-runner-unit sweep: ",
	} {
		var stderr bytes.Buffer
		assert.NotZero(t, run(t.Context(), strings.Fields(line), &stderr), line)
		assert.Contains(t, stderr.String(), want)
	}
}

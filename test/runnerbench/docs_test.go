package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bench/figures"
)

var update = flag.Bool("update", false, "write the figures of result.json into docs/performance.md")

const docs = "../../docs/performance.md"

// The figures in the docs are those of the committed result.
func TestFiguresInTheDocs(t *testing.T) {
	r, err := figures.Read("result.json")
	require.NoError(t, err)
	text, err := os.ReadFile(docs)
	require.NoError(t, err)
	const begin, end = "<!-- figures: go test ./test/runnerbench -update -->\n", "<!-- end of the figures of codex-runner -->"
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	table := r.Markdown()
	if *update {
		require.NoError(t, os.WriteFile(docs, []byte(before+begin+table+end+after), 0o644))
		return
	}
	assert.Equal(t, table, old, "hint: go test ./test/runnerbench -update")
}

// The sandbox of a session's unit is what systemd-run gets.
func TestSandbox(t *testing.T) {
	options, err := (&bench{unit: "../../packaging/systemd/codex-session@.service"}).sandbox()
	require.NoError(t, err)
	assert.Contains(t, options, "--property=NoNewPrivileges=yes")
	assert.Contains(t, options, "--property=PrivateNetwork=yes")
	assert.NotContains(t, strings.Join(options, " "), "#")
}

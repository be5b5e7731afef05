package main

import (
	"bytes"
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
	const begin, end = "<!-- figures: go test ./test/bench -update -->\n", "<!-- end of figures -->"
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	table := r.Markdown()
	if *update {
		require.NoError(t, os.WriteFile(docs, []byte(before+begin+table+end+after), 0o644))
		return
	}
	assert.Equal(t, table, old, "hint: go test ./test/bench -update")
}

// A pause of the collector is found in any pieces of the log.
func TestPauses(t *testing.T) {
	p := &pauses{}
	log := "ts=1 msg=listening\ngc 1 @0.010s 2%: 0.021+1.5+3.25 ms clock, 0.02+0/1/0+0.1 ms cpu, 4->4->1 MB, 4 MB " +
		"goal, 0 MB stacks, 0 MB globals, 1 P\n"
	for i := range log {
		_, err := p.Write([]byte(log[i : i+1]))
		require.NoError(t, err)
	}
	worst, n := p.worst(1)
	assert.Equal(t, "3.25ms", worst.String())
	assert.Equal(t, 1, n)
}

// A table shows a missed bound, and the change since the last result.
func TestTable(t *testing.T) {
	last, now := figures.New(ours, "nginx"), figures.New(ours, "nginx")
	last.One("CPU: chat", "µs", 200, 200)
	now.One("CPU: chat", "µs", 200, 250)
	now.Rows[0].Values["nginx"] = 50
	var b bytes.Buffer
	require.NoError(t, now.Table(&b, last))
	assert.Equal(t, []string{"CPU:", "chat", "≤", "200", "250", "µs", "50", "5.0", "200", "+25", "%", "MISSED"},
		strings.Fields(strings.SplitN(b.String(), "\n", 2)[1]))
}

// The coding prompt is of the size that its row names, and no two are alike.
func TestCodingPrompt(t *testing.T) {
	body := coding()
	assert.InDelta(t, 500_000, len(body(0)), 60_000)
	assert.NotEqual(t, body(0), body(1))
}

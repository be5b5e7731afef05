package anthropic

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

// paramTable is the table for the documentation: by rule, then by name.
func paramTable() string {
	var b strings.Builder
	b.WriteString("| parameter | rule | |\n|---|---|---|\n")
	for at, word := range []string{honoured: "honoured", ignored: "ignored", refused: "refused"} {
		for _, name := range slices.Sorted(maps.Keys(params)) {
			if p := params[name]; p.rule == rule(at) {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, word, p.why)
			}
		}
	}
	return b.String()
}

func TestParametersInTheDocs(t *testing.T) {
	const begin, end = "<!-- parameters of messages: written by go test ./proxy/anthropic -run TestParametersInTheDocs " +
		"-update -->\n", "<!-- end of parameters of messages -->"
	path := filepath.Join("..", "..", "docs", "api.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	there, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(head+begin+paramTable()+end+tail), 0o644))
		return
	}
	assert.Equal(t, paramTable(), there,
		"if this is meant: go test ./proxy/anthropic -run TestParametersInTheDocs -update")
}

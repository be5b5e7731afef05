// Package openaitest has what the tests of several packages of OpenAI's wire share: tables of the documents, rules of
// parameters, and parts of bodies.
package openaitest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of parameters and words into docs/api.md")

// InTheDocs compares a table with the one between two comments of docs/api.md.
func InTheDocs(t *testing.T, name, table string) {
	t.Helper()
	end := "<!-- end of " + name + " -->"
	path := filepath.Join(root(t), "docs", "api.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), "<!-- "+name+": ")
	require.True(t, ok)
	begin, rest, ok := strings.Cut(rest, " -->\n")
	require.True(t, ok)
	there, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		whole := head + "<!-- " + name + ": " + begin + " -->\n" + table + end + tail
		require.NoError(t, os.WriteFile(path, []byte(whole), 0o644))
		return
	}
	assert.Equal(t, table, there, "if this is meant, run this test with -update")
}

// root is the directory of the module: a test runs in the directory of its package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		require.NotEqual(t, dir, filepath.Dir(dir), "there is no go.mod above the package")
		dir = filepath.Dir(dir)
	}
}

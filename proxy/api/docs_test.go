package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeInSource = regexp.MustCompile(`\b(?:Invalid|Unavailable|Timeout)\("([a-z_]+)"|Code: "([a-z_]+)"|(?:TooMany\([A-Za-z.]+, |QuotaExceeded\()"([a-z_]+)"|unsupported\(()|[cC]ode[A-Z][A-Za-z]+ += "([a-z_]+)"|HandsCode += "([a-z_]+)"`)
	codeInTable  = regexp.MustCompile("`([a-z_]+)`")
)

// docs/api.md has every error code that a client can meet, and no other.
func TestErrorCodesInTheDocs(t *testing.T) {
	t.Parallel()
	inSource := map[string]bool{}
	for _, pattern := range []string{"../*.go", "../*/*.go", "../*/*/*.go", "../../remotes/links/*.go",
		"../../remotes/workerhands/*.go", "../../workers/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range codeInSource.FindAllStringSubmatch(string(text), -1) {
				inSource[m[1]+m[2]+m[3]+m[5]+m[6]] = true
			}
		}
	}
	delete(inSource, "")

	inDocs := map[string]bool{}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| status | type | code | when |\n|---|---|---|---|\n")
	require.True(t, ok)
	table, _, ok = strings.Cut(table, "\n\n")
	require.True(t, ok)
	for row := range strings.Lines(table) {
		for _, m := range codeInTable.FindAllStringSubmatch(strings.Split(row, "|")[3], -1) {
			inDocs[m[1]] = true
		}
	}
	assert.Equal(t, inSource, inDocs)
}

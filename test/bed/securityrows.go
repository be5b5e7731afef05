package bed

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
)

// SecurityRows are the rows of the tables of docs/security.md whose first cell matches,
// cell by cell without backquotes.
func SecurityRows(t *testing.T, first string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manual.Root(t), "docs/security.md"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(strings.TrimSpace(line), "|"), "`", ""), " | ")
		if cells[0] = strings.TrimSpace(cells[0]); len(cells) > 2 && regexp.MustCompile(first).MatchString(cells[0]) {
			rows = append(rows, cells)
		}
	}
	return rows
}

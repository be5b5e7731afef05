package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
)

// securityRows are the rows of the tables of docs/security.md whose first cell matches,
// cell by cell without backquotes.
func securityRows(t *testing.T, first string) (rows [][]string) {
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

// The files of the installed and running service belong to whom
// docs/security.md says.
func TestFilesAreWhose(t *testing.T) { bothSuites(t, testFilesAreWhose) }

func testFilesAreWhose(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.start()
	files := 0
	for _, row := range securityRows(t, `^/(usr|etc|var|run)/`) {
		if !strings.Contains(row[1], ":") || strings.Contains(row[1], " ") { // sockets have a table of their own
			continue
		}
		files++
		assert.Equal(t, row[1]+" "+row[2]+"\n", b.MustRun(t, "stat", "-c", "%U:%G %a", row[0]), row[0])
	}
	assert.Equal(t, 10, files)
	for socket, want := range map[string]string{
		"/run/codex-proxy/default.sock": "root:codex-proxy 660\n", "/run/codex-proxy/fetch.socket": "root:codex-proxy 660\n",
		"/run/codex-proxy/traces.socket": "root:codex-proxy 660\n", "/run/codex-proxy/control/socket": "codex-proxy:codex-proxy 600\n",
	} {
		assert.Equal(t, want, b.MustRun(t, "stat", "-c", "%U:%G %a", socket), socket)
	}
}

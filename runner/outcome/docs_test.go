package outcome

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/session"
)

// The table in docs/runner.md has the vocabulary, with the exit statuses that do not depend on the command.
func TestWordsInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/runner.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## How a command ends\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	statuses := map[Word]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .* \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		statuses[Word(row[1])] = row[2]
	}
	for word, facts := range map[Word]Facts{
		Succeeded: {Result: exited(0)}, TimedOut: {Result: ending(session.TimedOut)}, Cancelled: {CancelledBy: "alice"},
		OutOfMemory: {Ended: unit("oom-kill", "killed", "KILL")}, OutputLimit: {Result: ending(session.OutputLimit)},
		DiskFull: {Result: ending(session.DiskFull)}, PatchRejected: {Result: failure(session.PatchTask)},
		WorkspaceFailed: {Result: failure(session.WorkspaceTask)}, EnvironmentFailed: {Result: failure(session.EnvTask)},
		Lost: {},
	} {
		o := Decide(facts)
		assert.Equal(t, word, o.Word)
		assert.Equal(t, strconv.Itoa(o.ExitStatus), statuses[word], word)
	}
	for word, status := range map[Word]string{
		Failed: "that status", Signaled: "128+n", TaskLimit: "that status", CommandNotFound: "127, 126",
	} {
		assert.Equal(t, status, statuses[word], word)
	}
	assert.Len(t, statuses, len(Words()))
}

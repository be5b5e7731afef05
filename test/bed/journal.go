package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// UnitJournal has the messages of a unit.
func (b *Bed) UnitJournal(unit string) string {
	b.T.Helper()
	out, err := b.Journal(b.T.Context(), "--unit="+unit, "--output=cat")
	require.NoError(b.T, err)
	return out
}

// Export is the whole journal.
func (b *Bed) Export() string {
	b.T.Helper()
	out, err := b.Journal(b.T.Context(), "--output=export")
	require.NoError(b.T, err)
	return out
}

// OwnLines are the lines that the proxy itself wrote.
func (b *Bed) OwnLines(options ...string) string {
	b.T.Helper()
	out, err := b.Journal(b.T.Context(), append([]string{"--unit=" + ProxyUnit, "--output=cat",
		"SYSLOG_IDENTIFIER=codex-proxy"}, options...)...)
	require.NoError(b.T, err)
	return out
}

// AwaitJournal returns when a unit's journal has a line with text. It follows the
// journal: repeated questions to the proxy would use the CPU time that a test measures.
func (b *Bed) AwaitJournal(unit, text string, limit time.Duration) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), limit)
	defer cancel()
	seen := &grep{text: []byte(text), found: cancel}
	err := b.Exec(ctx, machine.Exec{Args: []string{"journalctl", "--boot", "--follow", "--no-tail", "--output=cat",
		"--unit=" + unit}, Stdout: seen})
	require.True(b.T, seen.ok, "%q never stood in the journal of %s: %v\n%s", text, unit, err, seen.buf.String())
}

// grep calls found when text was written to it.
type grep struct {
	text  []byte
	found func()
	buf   bytes.Buffer
	ok    bool
}

func (g *grep) Write(p []byte) (int, error) {
	g.buf.Write(p)
	if !g.ok && bytes.Contains(g.buf.Bytes(), g.text) {
		g.ok = true
		g.found()
	}
	return len(p), nil
}

// Entries are the journal entries of a query, oldest first.
func (b *Bed) Entries(t *testing.T, query ...string) (list []map[string]any) {
	t.Helper()
	out, err := b.Journal(t.Context(), append([]string{"--output=json"}, query...)...)
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		list = append(list, e)
	}
	return list
}

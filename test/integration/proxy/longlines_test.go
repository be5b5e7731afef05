package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The journal has a line of any length of a worker's program with all of its bytes, also
// if the program ends right after it.
func TestLongLinesInTheJournal(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		const thread = "01a1fb96-a2db-7690-a724-154667dd1353"
		require.NoError(t, b.WriteFile("/opt/talks", []byte(`#!/bin/sh
exec >&2
printf '2026-11-21T00:51:55.715499Z ERROR turn{thread.id=`+thread+`}: codex_core: '
i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); printf '%06d漢' $i; done
printf '\nshort\n'
head -c 200000 /dev/zero | tr '\0' x
`), 0o755))
		b.MustRun(t, "systemd-run", "--wait", "--unit=long", "codex-proxy", "notify-exec", "--stderr", "tracing",
			"--", "/opt/talks")

		got := map[string]*strings.Builder{"3": {}, "4": {}}
		// Not by its unit: journald looks for that when it reads an entry, and may find the process gone.
		for _, e := range b.Entries(t, "--all", "CODEX_EVENT=codex") {
			message, isText := e["MESSAGE"].(string)
			require.True(t, isText, "a character is cut: %v", e["MESSAGE"])
			if e["PRIORITY"] == "3" {
				assert.Equal(t, []any{thread, "codex_core"}, []any{e["CODEX_THREAD_ID"], e["CODEX_TARGET"]})
			}
			got[e["PRIORITY"].(string)].WriteString(message)
		}
		traced := got["3"].String()
		assert.Len(t, traced, 30000*len("000000漢"))
		assert.True(t, strings.HasPrefix(traced, "000001漢000002漢"))
		assert.True(t, strings.HasSuffix(traced, "029999漢030000漢"))
		assert.True(t, "short"+strings.Repeat("x", 200000) == got["4"].String(), "%d bytes", got["4"].Len())
	})
}

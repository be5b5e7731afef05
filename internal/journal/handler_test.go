package journal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entry is one entry that the journal received.
type entry struct {
	message  string
	priority journal.Priority
	vars     map[string]string
}

// sink is a journal that accepts everything until it has an error.
type sink struct {
	entries []entry
	err     error
}

func (s *sink) send(message string, p journal.Priority, vars []field) error {
	if s.err == nil {
		kept := map[string]string{}
		for _, f := range vars {
			kept[f.name] = f.value
		}
		s.entries = append(s.entries, entry{message, p, kept})
	}
	return s.err
}

func logger(s *sink, stderr *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(newHandler(Proxy, s.send, slog.NewJSONHandler(stderr, nil), level))
}

func TestEntries(t *testing.T) {
	var s sink
	log := logger(&s, nil, slog.LevelDebug)
	log.Info("worker ready", "worker", "a", "unit", "codex-worker@a.service", "latency_ms", 7, "took", 3*time.Second)
	log.With("worker", "b").WithGroup("g").With("x-y", 1).Warn("c\nd", slog.Group("h", "k", "v"), "error",
		errors.New("no\n<0>way"))
	log.Error("request failed", "key", "alice", "request_id", "req_1")
	log.Debug("not an event")
	require.Len(t, s.entries, 4)

	assert.Equal(t, "worker ready worker=a unit=codex-worker@a.service latency_ms=7 took=3s", s.entries[0].message)
	assert.Equal(t, journal.PriInfo, s.entries[0].priority)
	assert.Equal(t, "worker-ready", s.entries[0].vars["CODEX_EVENT"])
	assert.Len(t, s.entries[0].vars["MESSAGE_ID"], 32)
	delete(s.entries[0].vars, "MESSAGE_ID")
	assert.Equal(t, map[string]string{
		"SYSLOG_IDENTIFIER": "codex-proxy", "CODEX_EVENT": "worker-ready",
		"CODEX_WORKER": "a", "CODEX_UNIT": "codex-worker@a.service", "CODEX_LATENCY_MS": "7", "CODEX_TOOK": "3s",
	}, s.entries[0].vars)

	assert.Equal(t, journal.PriWarning, s.entries[1].priority)
	assert.Equal(t, map[string]string{
		"SYSLOG_IDENTIFIER": "codex-proxy", "CODEX_WORKER": "b", "CODEX_G_X_Y": "1", "CODEX_G_H_K": "v",
		"CODEX_G_ERROR": "no\n<0>way",
	}, s.entries[1].vars)

	assert.Equal(t, journal.PriErr, s.entries[2].priority)
	assert.Equal(t, "alice", s.entries[2].vars["CODEX_API_KEY_NAME"])
	assert.NotContains(t, s.entries[3].vars, "MESSAGE_ID")
}

func TestLevel(t *testing.T) {
	var s sink
	log := logger(&s, nil, slog.LevelWarn)
	log.Info("hidden")
	assert.False(t, log.Enabled(context.Background(), slog.LevelInfo))
	assert.Empty(t, s.entries)
}

// No entry is lost while the journal is down.
func TestWhatCannotBeSentGoesToStandardError(t *testing.T) {
	var stderr bytes.Buffer
	log := logger(&sink{err: errors.New("no journal")}, &stderr, slog.LevelInfo)
	log.With("worker", "a").Info("worker ready", "models", 1)
	assert.Contains(t, stderr.String(), `"msg":"worker ready","worker":"a","models":1}`)
}

func TestWithoutAJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	var stderr bytes.Buffer
	slog.New(NewHandler(Proxy, &stderr, slog.LevelInfo)).Warn("a", "n", 1)
	assert.Regexp(t, `^\{"time":"\S+","level":"WARN","msg":"a","n":1\}\n$`, stderr.String())
}

func TestTracing(t *testing.T) {
	var s sink
	line := tracing(s.send, nil, func(thread string) string {
		return map[string]string{"01a1fb96-a2db-7690-a724-154667dd1353": "req_1"}[thread]
	})
	for _, l := range []string{
		"\x1b[2m2026-11-21T00:51:55.715499Z\x1b[0m \x1b[31mERROR\x1b[0m " +
			"\x1b[2mcodex_app_server\x1b[0m\x1b[2m:\x1b[0m Codex could not find bubblewrap: see https://x.y/z: there",
		"2026-11-21T00:51:55.715499Z  WARN session_loop{thread_id=01a1fb96-a2db-7690-a724-154667dd1353}:turn{model=x " +
			"a=\"b c\"}: codex_core::client: stream: broken",
		"2026-11-21T00:51:55.715499Z  INFO a::b: {x}: y: z",
		"thread 'main' panicked at x.rs:1:2:",
		"2026-11-21T00:51:55.715499Z  INFO turn{thread.id=01a1fb96-a2db-7690-a724-154667dd1353 " +
			"a=\"b\"}:step_context.capture:mcp: codex_core::session: close",
		"2026-11-21T00:51:55.715499Z ERROR codex_core: failed conversation.id=01a1fb96-a2db-7690-a724-154667dd1354",
	} {
		line(l + "\n")
	}
	line("\n")
	require.Len(t, s.entries, 6, "an empty line is no entry")
	for i, want := range []struct {
		message, target, thread, request string
		priority                         journal.Priority
	}{
		{"Codex could not find bubblewrap: see https://x.y/z: there", "codex_app_server", "", "", journal.PriErr},
		{"stream: broken", "codex_core::client", "01a1fb96-a2db-7690-a724-154667dd1353", "req_1", journal.PriWarning},
		{"{x}: y: z", "a::b", "", "", journal.PriInfo},
		{"thread 'main' panicked at x.rs:1:2:", "", "", "", journal.PriWarning},
		{"close", "codex_core::session", "01a1fb96-a2db-7690-a724-154667dd1353", "req_1", journal.PriInfo},
		{"failed conversation.id=01a1fb96-a2db-7690-a724-154667dd1354", "codex_core",
			"01a1fb96-a2db-7690-a724-154667dd1354", "", journal.PriErr},
	} {
		got := s.entries[i]
		assert.Equal(t, want.message, got.message)
		assert.Equal(t, want.priority, got.priority)
		assert.Equal(t, want.target, got.vars["CODEX_TARGET"])
		assert.Equal(t, want.thread, got.vars["CODEX_THREAD_ID"])
		assert.Equal(t, want.request, got.vars["CODEX_REQUEST_ID"])
		assert.Equal(t, "codex", got.vars["CODEX_EVENT"])
	}
}

// The journal has all bytes of a long line, which comes in pieces: the pieces have the
// priority and the fields of the first.
func TestTracingOfLongLines(t *testing.T) {
	const id = "01a1fb96-a2db-7690-a724-154667dd1353"
	for name, c := range map[string]struct{ pieces, messages []string }{
		"message": {[]string{"2026-11-21T00:51:55.715499Z ERROR turn{thread.id=" + id + "}: a::b: one ", " two", " \n"},
			[]string{"one ", " two", " "}},
		"spans": {[]string{"2026-11-21T00:51:55.715499Z ERROR turn{thread.id=" + id + " x=", "y}: a::b: one\n"},
			[]string{"2026-11-21T00:51:55.715499Z ERROR turn{thread.id=" + id + " x=", "y}: a::b: one"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s sink
			pass := tracing(s.send, nil, func(string) string { return "req_1" })
			for _, piece := range append(c.pieces, "another\n") {
				pass(piece)
			}
			require.Len(t, s.entries, len(c.messages)+1)
			for i, message := range c.messages {
				assert.Equal(t, message, s.entries[i].message)
				assert.Equal(t, journal.PriErr, s.entries[i].priority)
				assert.Equal(t, id, s.entries[i].vars["CODEX_THREAD_ID"])
				assert.Equal(t, s.entries[0].vars, s.entries[i].vars)
				assert.Equal(t, "req_1", s.entries[i].vars["CODEX_REQUEST_ID"])
			}
			last := s.entries[len(c.messages)]
			assert.Equal(t, journal.PriWarning, last.priority)
			assert.NotContains(t, last.vars, "CODEX_THREAD_ID")
		})
	}
}

// Without a journal, standard error gets the bytes unchanged.
func TestTracingWithoutAJournal(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	var stderr bytes.Buffer
	pass := NewTracing(&stderr, nil)
	for _, piece := range []string{"a", "b\n", "\n", "\x1b[0mc"} {
		pass(piece)
	}
	assert.Equal(t, "ab\n\n\x1b[0mc", stderr.String())
}

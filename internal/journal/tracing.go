package journal

import (
	"io"
	"log/slog"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"

	"codex-proxy/internal/lazyregexp"
)

// NewTracing returns a notify.Command.Stderr for the standard error of codex, which it gets by line, and long lines in
// pieces. codex writes it with Rust's tracing, as "TIME LEVEL SPANS TARGET: MESSAGE": in the journal, the level becomes
// the priority, and thread and target become fields. Each piece of a long line is an entry with the priority and the
// fields of the first one. If standard error is not connected to the journal, it gets the bytes unchanged. requests
// returns the id of the request that a thread works on, or "".
func NewTracing(stderr io.Writer, requests func(thread string) string) func(piece string) {
	if native, err := journal.StderrIsJournalStream(); err != nil || !native {
		return func(piece string) { _, _ = io.WriteString(stderr, piece) }
	}
	return tracing((&native{path: nativeSocket, program: Proxy}).send, newStream(stderr), requests)
}

func tracing(send sender, stderr io.Writer, requests func(string) string) func(string) {
	event := []field{{"MESSAGE_ID", eventOfCodex()}, {"CODEX_EVENT", "codex"}, {"SYSLOG_IDENTIFIER", "codex"}}
	within := false // the last piece had no end of line
	var level slog.Level
	var vars []field
	return func(piece string) {
		piece = colour.ReplaceAllString(piece, "")
		message, ended := strings.CutSuffix(piece, "\n")
		if !within {
			message, level, vars = parseTracing(message)
			vars = append(withRequest(vars, requests), event...)
		}
		within = !ended
		if piece != "\n" && send(message, priority(level), vars) != nil {
			_, _ = io.WriteString(stderr, piece)
		}
	}
}

func eventOfCodex() (id string) {
	for _, e := range allEvents() {
		if e.Message == "" {
			id = e.ID
		}
	}
	return id
}

// withRequest adds the id of the request that the line's thread works on.
func withRequest(vars []field, requests func(thread string) string) []field {
	for _, f := range vars {
		if f.name != threadField {
			continue
		}
		if request := requests(f.value); request != "" {
			vars = append(vars, field{"CODEX_REQUEST_ID", request})
		}
	}
	return vars
}

var (
	// traced matches a line with its target. The spans, of which there may be none, end
	// in ": ". Only their names are without braces.
	traced = lazyregexp.New(`^\S+Z +(TRACE|DEBUG|INFO|WARN|ERROR) ` +
		`(?:\S.*?\}(?::[a-z_.]+)*: )??([a-z_][a-z0-9_]*(?:::[a-z0-9_]+)*): (.*)$`)
	// headed matches a first piece without the target.
	headed = lazyregexp.New(`^\S+Z +(TRACE|DEBUG|INFO|WARN|ERROR) `)
	colour = lazyregexp.New(`\x1b\[[0-9;]*m`) // codex writes colours to any output
	thread = lazyregexp.New(`(?:thread[._]id|conversation\.id)=([0-9a-f-]{36})`)
)

var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
	"ERROR": slog.LevelError,
}

const threadField = "CODEX_THREAD_ID"

// parseTracing parses a line, or its first piece. A line of another form, such as the
// backtrace of a panic, is a warning.
func parseTracing(line string) (message string, level slog.Level, vars []field) {
	if m := thread.FindStringSubmatch(line); m != nil {
		vars = append(vars, field{threadField, m[1]})
	}
	if m := traced.FindStringSubmatch(line); m != nil {
		return strings.TrimLeft(m[3], " "), levels[m[1]], append(vars, field{"CODEX_TARGET", m[2]})
	}
	if m := headed.FindStringSubmatch(line); m != nil {
		return line, levels[m[1]], vars
	}
	return line, slog.LevelWarn, vars
}

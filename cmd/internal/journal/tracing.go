package journal

import (
	"io"
	"log/slog"
	"regexp"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
)

// NewTracing takes the standard error of codex line by line. codex writes it with
// Rust's tracing, as "TIME LEVEL SPANS TARGET: MESSAGE": in the journal, the level
// becomes the priority, and thread and target become fields. Where standard error
// does not lead to the journal the lines go there as they are. requests tells which
// request a thread is at; empty if nobody knows.
func NewTracing(stderr io.Writer, requests func(thread string) string) func(line string) {
	if native, err := journal.StderrIsJournalStream(); err != nil || !native {
		return func(line string) { _, _ = io.WriteString(stderr, line+"\n") }
	}
	return tracing((&native{path: nativeSocket}).send, newStream(stderr), requests)
}

func tracing(send sender, stderr io.Writer, requests func(string) string) func(string) {
	var id string
	for _, e := range Events() {
		if e.Message == "" {
			id = e.ID
		}
	}
	return func(line string) {
		line = colour.ReplaceAllString(line, "")
		message, level, vars := parseTracing(line)
		for _, f := range vars {
			if f.name != threadField {
				continue
			}
			if request := requests(f.value); request != "" {
				vars = append(vars, field{"CODEX_REQUEST_ID", request})
			}
		}
		vars = append(vars, field{"MESSAGE_ID", id}, field{"CODEX_EVENT", "codex"}, field{"SYSLOG_IDENTIFIER", "codex"})
		if send(message, priority(level), vars) != nil {
			_, _ = io.WriteString(stderr, line+"\n")
		}
	}
}

var (
	// The spans, of which there may be none, end in ": ". Only their names are
	// without braces.
	traced = regexp.MustCompile(`^\S+Z +(TRACE|DEBUG|INFO|WARN|ERROR) (?:\S.*?\}(?::[a-z_.]+)*: )??([a-z_][a-z0-9_]*(?:::[a-z0-9_]+)*): (.*)$`)
	colour = regexp.MustCompile(`\x1b\[[0-9;]*m`) // which codex writes wherever it writes to
	thread = regexp.MustCompile(`(?:thread[._]id|conversation\.id)=([0-9a-f-]{36})`)
)

var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "ERROR": slog.LevelError,
}

const threadField = "CODEX_THREAD_ID"

// parseTracing takes a line apart. One that is not of that form, such as the
// backtrace of a panic, is a warning.
func parseTracing(line string) (message string, level slog.Level, vars []field) {
	if m := thread.FindStringSubmatch(line); m != nil {
		vars = append(vars, field{threadField, m[1]})
	}
	m := traced.FindStringSubmatch(line)
	if m == nil {
		return line, slog.LevelWarn, vars
	}
	return strings.TrimSpace(m[3]), levels[m[1]], append(vars, field{"CODEX_TARGET", m[2]})
}

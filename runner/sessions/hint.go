package sessions

import (
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
)

// OwnProgram is a hint at the program that this user has where no session finds it, for a command that did not run for
// the lack of it, or without its set-up; "" without one.
func OwnProgram(c wire.Command) string {
	if c.Outcome == nil {
		return ""
	}
	missed := missing(c)
	home, err := os.UserHomeDir()
	if len(missed) == 0 || err != nil {
		return ""
	}
	settings, _ := sandbox.Read(paths.Settings) // without them, the hint names the line all the same
	caller := sandbox.Caller{Home: home, Path: os.Getenv("PATH"), Root: os.Geteuid() == 0, Settings: settings}
	for _, program := range missed {
		if hint := caller.Hint(program); hint != "" {
			return hint
		}
	}
	return ""
}

// missing are the programs that a command may have missed.
func missing(c wire.Command) []string {
	missed := environment.MissingIn(c.Outcome.Text + c.Outcome.Note)
	switch c.Outcome.Word {
	case outcome.CommandNotFound:
		return append(c.Args[:1:1], missed...)
	case outcome.Failed:
		if c.Outcome.Status == notFound && len(c.Args) > 2 && shells[filepath.Base(c.Args[0])] {
			return append(words(c.Args[len(c.Args)-1]), missed...)
		}
	}
	return missed
}

// notFound is the exit status of a shell that does not find a program.
const notFound = 127

var shells = map[string]bool{"sh": true, "bash": true, "dash": true}

// mostWords bounds the words of a line that are looked at.
const mostWords = 64

// words are the words of a line for a shell that may name programs.
func words(line string) []string {
	all := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()<>`$\"'{}", r) })
	return all[:min(len(all), mostWords)]
}

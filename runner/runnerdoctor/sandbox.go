package runnerdoctor

import (
	"context"
	"strings"

	"codex-proxy/internal/checkup"
	"codex-proxy/runner/config"
)

// checkSandbox checks that the host has the paths that [sandbox] of runner.toml names. Commands run without it.
func checkSandbox(_ context.Context, s *facts) []checkup.Finding {
	c, err := config.Load(s.Path(s.Config))
	if err != nil {
		return checkup.Unchecked("", "it is in "+s.Config, "config").Alone()
	}
	var found []checkup.Finding
	for _, fault := range c.Sandbox.Missing(func(path string) string { return s.Path(path) }) {
		what, remedy, _ := strings.Cut(fault, ": ")
		found = append(found, checkup.Warning("", what, remedy))
	}
	return checkup.OrPassed(found, "the host has what "+s.Config+" names for commands")
}

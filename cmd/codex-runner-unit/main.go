// Command codex-runner-unit does the steps of the units that codex-runner starts: of sessions, of fetches of
// repositories, of builds of environments, and of sweeps. It is a program of its own, as every command of a session
// waits for three processes of it: it has little to initialise, and takes little memory.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/runner/session"
)

// usage is the exit status for wrong usage, EX_USAGE of sysexits.h.
const usage = 64

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr))
}

// step is the action of one line of a unit file, or a command of a session. Its only argument is named by argument,
// "" for none.
type step struct {
	argument string
	run      func(ctx context.Context, argument string, notifier *notify.Notifier) error
}

var steps = map[string]step{
	"session-prepare":     {"ID", sessionPrepare},
	"session-exec":        {"", sessionExec},
	"session-ended":       {"ID", sessionEnded},
	session.DiffStep:      {"ORDER", sessionDiff},
	"repository-prepare":  {"KEY", repositoryPrepare},
	"repository-fetch":    {"", repositoryFetch},
	"repository-fetched":  {"KEY", repositoryFetched},
	"environment-prepare": {"KEY", environmentPrepare},
	"environment-build":   {"KEY", environmentBuild},
	"environment-publish": {"KEY", environmentPublish},
	"sweep":               {"WHAT", sweep},
}

// run does one step, and returns the exit status.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	name, argument, err := parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "codex-runner-unit: %v; systemctl cat codex-session@.service shows how it is run\n", err)
		return usage
	}
	notifier, err := notify.FromEnv(slog.New(journal.NewHandler(journal.Runner, stderr, slog.LevelInfo)))
	if err == nil {
		err = steps[name].run(ctx, argument, notifier)
	}
	if err != nil {
		fmt.Fprintf(stderr, "codex-runner-unit %s: %v\n", name, err)
		return 1
	}
	return 0
}

// parse returns the name of a step and its argument.
func parse(args []string) (name, argument string, err error) {
	if len(args) == 0 {
		return "", "", errors.New("the name of a step is missing")
	}
	s, known := steps[args[0]]
	switch {
	case !known:
		return "", "", fmt.Errorf("there is no step %q", args[0])
	case s.argument == "" && len(args) == 1:
		return args[0], "", nil
	case s.argument == "":
		return "", "", fmt.Errorf("%s takes no argument", args[0])
	case len(args) != 2:
		return "", "", fmt.Errorf("%s takes one argument, %s", args[0], s.argument)
	}
	return args[0], args[1], nil
}

package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
)

// RunnerFailed is the status of run if the command did not run, or its end is not known, as 125 of timeout(1).
const RunnerFailed = 125

// signaled and the number of a signal are the status of a program that it ended.
const signaled = 128

// Status returns err with the exit status of its kind: Usage for an invalid request by the daemon's code, TempFail if a
// later attempt may succeed, 128+n after the signal n, or else the given one.
func Status(err error, other int) error {
	var refused *wire.Error
	var left *LeftError
	switch {
	case err == nil || cli.HasStatus(err):
		return err
	case errors.As(err, &left):
		return cli.Exit(signaled+int(left.Signal), err)
	case errors.As(err, &refused):
		switch refused.Code {
		case wire.InvalidRequest, wire.EnvironmentUnknown:
			return cli.Exit(cli.Usage, err)
		case wire.QueueFull, wire.TooMany, wire.Unavailable:
			return cli.Exit(cli.TempFail, err)
		}
	}
	return cli.Exit(other, err)
}

// ended returns the error of a command that did not succeed, with a hint if there is one. Its own exit status needs no
// words.
func ended(o outcome.Outcome, hint string) error {
	switch {
	case o.Word == outcome.Failed && hint != "":
		return cli.Exit(o.ExitStatus, errors.New(hint))
	case o.Word == outcome.Succeeded || o.Word == outcome.Failed:
		return cli.Exit(o.ExitStatus, nil)
	}
	return cli.Exit(o.ExitStatus, errors.New(strings.TrimSpace(o.Text+" "+hint)))
}

// WriteError writes the error of the daemon as the API does, and returns err.
func WriteError(w io.Writer, err error) error {
	if refused, ok := errors.AsType[*wire.Error](err); ok {
		return errors.Join(err, writeJSON(w, wire.Failure{Error: refused}))
	}
	return err
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", text)
	}
	return err
}

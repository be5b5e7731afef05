package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// Exit statuses, as sysexits.h and systemd.exec(5) name them.
const (
	OK          = 0
	Failure     = 1
	Usage       = 64 // EX_USAGE
	Unavailable = 69 // EX_UNAVAILABLE: another service is not there
	TempFail    = 75 // EX_TEMPFAIL: another try may succeed
	Config      = 78 // EX_CONFIG
)

// exitError is an error with the exit status that it leads to.
type exitError struct {
	status int
	err    error // nil: there is nothing to print
}

// Exit returns err with the exit status of the program. Without an err nothing is
// printed. Other errors than these lead to Failure.
func Exit(status int, err error) error {
	if status == OK {
		return nil
	}
	return &exitError{status, err}
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

// Unwrap implements the interface of package errors.
func (e *exitError) Unwrap() error { return e.err }

// failing makes Failure the status of all errors of run except errors of Exit. The other errors that cobra returns are
// then about the command line.
func failing(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := run(c, args)
		var exit *exitError
		if err == nil || errors.As(err, &exit) {
			return err
		}
		return Exit(Failure, err)
	}
}

// report prints err and returns its status.
func report(stderr io.Writer, path string, err error) int {
	status := Usage
	if exit, ok := errors.AsType[*exitError](err); ok {
		if status = exit.status; exit.err == nil {
			return status
		}
	}
	fmt.Fprintf(stderr, "%s: %s\n", path, strings.Map(visible, err.Error()))
	return status
}

// visible drops control characters of a terminal: an error may have text of a program that is not trusted.
func visible(r rune) rune {
	if unicode.IsPrint(r) || r == '\n' || r == '\t' {
		return r
	}
	return -1
}

// Report is for a program without commands: it prints err, if there is something to print, and returns its exit status.
func Report(stderr io.Writer, program string, err error) int {
	switch {
	case err == nil:
		return OK
	case !HasStatus(err):
		err = Exit(Failure, err)
	}
	return report(stderr, program, err)
}

// HasStatus reports whether Exit made err.
func HasStatus(err error) bool {
	_, ok := errors.AsType[*exitError](err)
	return ok
}

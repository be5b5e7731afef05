// Package remotescli keeps the remotes for an operator: it makes, lists, checks, stops and removes them, sends messages
// to them, has their cut turns go on, and shows their journal.
package remotescli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"codex-proxy/units"
)

// jobBound is for a start or a stop of a remote, which end in far less.
const jobBound = 2 * time.Minute

// Remotes is the input of one command line of remotes.
type Remotes struct {
	Systemd *units.Manager
	Places
	Control string // the daemon's control socket; a watch of List follows it

	With   Answers // of Add
	Purge  bool    // Remove removes the home and the drop-ins of the operator, too
	JSON   bool    // List prints JSON
	Watch  bool    // List goes on with every change
	Thread string  // of Send and Continue; empty: the last one, or the one that was cut
	Stdout io.Writer
	Stderr io.Writer // for people

	warned bool // a watch has shown that there are too many files
}

// describe returns a unit of systemd. Without systemd it returns one that is not installed.
func (r *Remotes) describe(ctx context.Context, unit string) (units.Description, error) {
	u, err := r.Systemd.Describe(ctx, unit)
	if errors.Is(err, units.ErrNoBus) {
		return units.Description{State: units.State{Unit: unit, LoadState: "not-found"}}, nil
	}
	return u, err
}

// print prints a line for people.
func (r *Remotes) print(format string, args ...any) { fmt.Fprintf(r.Stderr, format+"\n", args...) }

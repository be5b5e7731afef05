// Package remotescli keeps the remotes for an operator: it makes, lists, checks, stops and removes them, sends messages
// to them, has their cut turns go on, and shows their journal.
package remotescli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/units"
)

// jobBound is for a start or a stop of a remote, which end in far less.
const jobBound = 2 * time.Minute

// Remotes is the input of one command line of remotes.
type Remotes struct {
	Systemd  *units.Manager
	Settings string // the directory with the files of the remotes
	Template string // the file that Add copies
	Homes    string // the directory with the home of each remote
	// PrivateHomes has the home of each remote with a user of its own (systemd.exec(5), DynamicUser=).
	PrivateHomes string
	Units        string // the directory with the drop-ins of the operator
	Socket       func(name string) string

	With   Answers // of Add
	Purge  bool    // Remove removes the home and the drop-ins of the operator, too
	JSON   bool    // List prints JSON
	Watch  bool    // List goes on with every change
	Thread string  // of Send and Continue; empty: the last one, or the one that was cut
	Stdout io.Writer
	Stderr io.Writer // for people

	warned bool // a watch has shown that there are too many files
}

func (r *Remotes) fileOf(name string) string { return filepath.Join(r.Settings, name+".toml") }

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

// known is the error of a remote that has no file.
func (r *Remotes) known(name string) error {
	if exists(r.fileOf(name)) {
		return nil
	}
	return fmt.Errorf("there is no remote %q; codex-proxy remotes list shows what there is", name)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

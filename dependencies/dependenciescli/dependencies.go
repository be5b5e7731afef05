// Package dependenciescli keeps the dependencies: it makes, lists, checks and removes them for an operator.
package dependenciescli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"codex-proxy/units"
)

// jobBound is for a stop, which TimeoutStopSec= of the unit ends earlier unless the file allows longer.
const jobBound = 10 * time.Minute

// Dependencies is the input of one command line of dependencies. All methods but List need root.
type Dependencies struct {
	Systemd  *units.Manager
	Etc      string // the directory of all settings, /etc/codex-proxy
	Settings string // the directory with the files of the dependencies
	Presets  string // the directory with the presets
	States   string // the directory with the state of each dependency
	// PrivateStates has the state of each dependency with a user of its own (systemd.exec(5), DynamicUser=).
	PrivateStates string
	Units         string // the directory with the drop-ins of the operator
	Socket        string // the daemon's control socket

	Preset string // Add copies this preset; empty: the one that is named like the dependency
	Purge  bool   // Remove removes the state and the drop-ins of the operator, too
	JSON   bool   // List prints JSON
	Watch  bool   // List goes on with every change
	Stdout io.Writer
	Stderr io.Writer // for people

	warned map[string]bool // lines that a watch has printed for people
}

// of returns the dependency of that name, which may not exist.
func (d *Dependencies) of(name string) dependency {
	unit := units.Dependency(name)
	return dependency{
		name: name, unit: unit, file: filepath.Join(d.Settings, name+".toml"), dropIns: filepath.Join(d.Units,
			unit+".d"),
		state: []string{filepath.Join(d.States, name), filepath.Join(d.PrivateStates, name)},
	}
}

// describe returns a unit of systemd. Without systemd it returns one that is not installed.
func (d *Dependencies) describe(ctx context.Context, unit string) (units.Description, error) {
	u, err := d.Systemd.Describe(ctx, unit)
	if errors.Is(err, units.ErrNoBus) {
		return units.Description{State: units.State{Unit: unit, LoadState: "not-found"}}, nil
	}
	return u, err
}

// print prints a line for people.
func (d *Dependencies) print(format string, args ...any) { fmt.Fprintf(d.Stderr, format+"\n", args...) }

// interruptible bounds the wait for jobs of systemd. The jobs go on after it.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return ctx, func() { stop(); cancel() }
}

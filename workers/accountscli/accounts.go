// Package accountscli keeps the workers and their logins.
package accountscli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/units"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
)

// DefaultWorker is the worker of the package.
const DefaultWorker = "default"

// jobBound is for a restart of a worker, which TimeoutStopSec= and
// TimeoutStartSec= of its unit end earlier.
const jobBound = 7 * time.Minute

// Accounts is the state of one command line of accounts. Its methods need root.
type Accounts struct {
	Systemd *units.Manager
	// Workers returns the names in `workers` of config.toml, and the error if the settings have a fault.
	Workers func() ([]string, error)
	// Policy returns how config.toml has accounts chosen; with an error, as far as it can be read.
	Policy func() (accounts.Policy, error)
	Socket string // the daemon's control socket
	APIKey bool   // Login reads an API key from Stdin
	Purge  bool   // Remove removes the worker's home, too
	JSON   bool   // List and Login print JSON
	Watch  bool   // List goes on with every change
	Stdin  *os.File
	Stdout io.Writer
	Stderr io.Writer // for people

	warned map[string]bool // the text that a watch has printed for people
}

func workerFileOf(name string) string { return filepath.Join(paths.WorkerSettings, name+".toml") }
func workerHomeOf(name string) string { return filepath.Join(paths.WorkerHomes, name) }
func keptHomeOf(name string) string   { return filepath.Join(paths.LoginHomes, name) }

// homeOfLogin is the home that has the worker's login now: its own one, or that of the unit that keeps its login.
func homeOfLogin(name string) string {
	if kept := keptHomeOf(name); exists(filepath.Join(kept, "auth.json")) {
		return kept
	}
	return workerHomeOf(name)
}

func loginFileOf(name string) string { return filepath.Join(homeOfLogin(name), "auth.json") }

// holder is this process for homelock.Take.
func holder(command string) string {
	return fmt.Sprintf("codex-proxy accounts %s (process %d)", command, os.Getpid())
}

// describe returns a unit of systemd. Without systemd it returns one that is not
// installed.
func (a *Accounts) describe(ctx context.Context, unit string) (units.Description, error) {
	d, err := a.Systemd.Describe(ctx, unit)
	if errors.Is(err, units.ErrNoBus) {
		return units.Description{State: units.State{Unit: unit, LoadState: "not-found"}}, nil
	}
	return d, err
}

// program is the codex of a worker, to be run as a user that owns nothing.
func program(w *codexhome.Worker, unit units.Description) (*codexhome.Program, codexhome.Account, error) {
	user, err := reach.Lookup(paths.WorkerUser)
	if err != nil {
		return nil, codexhome.Account{}, fmt.Errorf("cannot run codex as %s: %w", paths.WorkerUser, err)
	}
	as := codexhome.Account{UID: user.UID, GID: user.GID}
	c, _, _ := copies.Open().Chosen(unit.Unit) // of a damaged one: none
	p, err := w.Program(c.Program, unit.Environment, as)
	return p, as, err
}

// print prints a line for people.
func (a *Accounts) print(format string, args ...any) {
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

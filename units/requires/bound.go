package requires

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/units"
)

// Bound starts the units that are bound to a dependency again when the dependency is back. systemd stops them when the
// dependency ends, and starts none of them with its automatic restart. A unit that an operator has stopped stays
// stopped: Bound starts only the units that were running, or about to start, when the dependency ended.
type Bound struct {
	Dir     string // of the records, a file for each dependency
	Systemd Systemd
}

// Systemd has the calls of Bound to systemd. See units.Manager.
type Systemd interface {
	Describe(ctx context.Context, unit string) (units.Description, error)
	Enqueue(ctx context.Context, unit string) error
}

// Record adds to the record of the dependency which of the bound units its end stops. It is
// to be called in ExecStopPost= of the dependency: systemd may have begun to stop them.
func (b Bound) Record(ctx context.Context, name string, bound []string) error {
	dependency, err := b.Systemd.Describe(ctx, units.Dependency(name))
	if err != nil {
		return err
	}
	record, errs := b.read(name), []error(nil)
	for _, unit := range bound {
		d, err := b.Systemd.Describe(ctx, unit)
		errs = append(errs, err)
		if err == nil && endsWith(d, dependency) && !slices.Contains(record, unit) {
			record = append(record, unit)
		}
	}
	if len(record) > 0 {
		errs = append(errs, b.write(name, record))
	}
	return errors.Join(errs...)
}

// Start queues the start of the recorded units that are still bound, and clears the record.
// It is to be called in ExecStartPost= of the dependency, after which the starts wait (After=).
func (b Bound) Start(ctx context.Context, name string, bound []string) error {
	var errs []error
	for _, unit := range b.read(name) {
		if slices.Contains(bound, unit) {
			errs = append(errs, b.Systemd.Enqueue(ctx, unit))
		}
	}
	if err := os.Remove(b.path(name)); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// endsWith reports whether the end of the dependency ends the unit: it runs or waits for its
// start, or has left that state since the dependency was last active. A stop by an operator
// began before that.
func endsWith(d, dependency units.Description) bool {
	switch {
	case d.Active(), d.ActiveState == "activating":
		return true
	case d.JobPending && d.ActiveState != "deactivating": // its start waits for the dependency
		return true
	}
	wasUp, since := dependency.LeftActive > dependency.LeftInactive, dependency.LeftActive
	neverUp := d.LeftInactive > d.LeftActive // since its last start: it ended while it was starting
	return wasUp && (d.LeftActive >= since || neverUp && d.BecameInactive >= since)
}

func (b Bound) path(name string) string { return filepath.Join(b.Dir, name) }

// read is the record; nothing without one.
func (b Bound) read(name string) []string {
	text, _ := os.ReadFile(b.path(name)) // an unreadable record is empty
	return strings.Fields(string(text))
}

func (b Bound) write(name string, record []string) error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot record what to start again: %w", err)
	}
	return os.WriteFile(b.path(name), []byte(strings.Join(record, "\n")+"\n"), 0o600)
}

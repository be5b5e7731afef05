// Package textfile has the metrics that codex-proxy writes for the textfile collector of node exporter.
package textfile

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/reload"
	"codex-proxy/internal/promfile"
	"codex-proxy/probes"
)

// Settings configure a Keeper.
type Settings struct {
	Path      string // empty: the settings want no file
	Version   string // of the program
	Report    func() probes.Report
	Changed   <-chan struct{} // the report may have changed
	Successor *reload.Successor
	Logger    *slog.Logger
}

// Keeper keeps the file for node exporter while this process serves.
type Keeper struct {
	settings Settings
	writer   *promfile.Writer // nil: the settings want none

	before string // the file of the predecessor; set before this process serves
}

// NewKeeper returns a keeper that has written nothing yet.
func NewKeeper(settings Settings) *Keeper {
	k := &Keeper{settings: settings}
	if settings.Path != "" {
		k.writer = newWriter(settings.Path, settings.Version, settings.Report, settings.Logger)
	}
	return k
}

// Path is the file that this process writes.
func (k *Keeper) Path() string { return k.settings.Path }

// TakeOver remembers the file of the predecessor, before this process serves.
func (k *Keeper) TakeOver(before string) { k.before = before }

// DropBefore removes the file of the predecessor, unless this process writes it. A process
// that has a successor leaves that to it.
func (k *Keeper) DropBefore() {
	if k.before != "" && k.before != k.settings.Path && !k.settings.Successor.Serves() {
		promfile.Remove(k.before, k.settings.Logger)
	}
}

// Run writes the file until this process has a successor, which then writes it. It removes
// the file when the service ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.writer == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var replaced sync.WaitGroup
	replaced.Go(func() {
		defer cancel()
		select {
		case <-k.settings.Successor.Serving():
		case <-ctx.Done():
		}
	})
	replaced.Go(func() {
		for {
			select {
			case <-k.settings.Changed:
				k.writer.Changed()
			case <-ctx.Done():
				return
			}
		}
	})
	err := k.writer.Run(ctx)
	cancel()
	replaced.Wait()
	if !k.settings.Successor.Serves() {
		k.writer.Remove()
	}
	return err
}

// newWriter returns a writer of the report to the file at path. version is the program's.
func newWriter(path, version string, report func() probes.Report, logger *slog.Logger) *promfile.Writer {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(version, report))
	return promfile.New(path, registry, func() []string { return stateOf(report()) }, logger)
}

// stateOf is the part of the report that causes a write at once if it changes.
func stateOf(r probes.Report) []string {
	state := []string{string(r.Health.Readiness.Reason)}
	for _, w := range r.Workers {
		state = append(state, string(w.Reason), w.InvocationID)
	}
	for _, d := range r.Dependencies {
		state = append(state, d.Name, string(d.Reason), d.Since.String())
	}
	for _, r := range r.Remotes {
		state = append(state, r.Name, string(r.Reason), r.Since.String())
	}
	return state
}

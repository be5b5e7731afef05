// Package drain keeps new turns from workers, and waits for the turns in flight.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"codex-proxy/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// DefaultWait is the default of drain_timeout in config.toml.
const DefaultWait = 5 * time.Minute

// stopSlice is the longest that a stop waits for one answer. Then it asks again: it
// passes a proxy that hangs, and reaches the one that a reload has put in its place.
const stopSlice = 2 * time.Second

// Drain is one command line of drain.
type Drain struct {
	Client *control.Client
	Worker string        // empty: all
	Wait   time.Duration // how long turns in flight may take; zero: do not wait
}

// Run drains, and prints the state of the workers. It fails if turns are in flight
// when Wait is over.
func (d Drain) Run(ctx context.Context, stdout io.Writer) error {
	report, err := d.inSlices(ctx, control.Request{Worker: d.Worker}, d.Wait)
	if err != nil {
		return err
	}
	busy := 0
	for _, w := range chosen(report, d.Worker) {
		fmt.Fprintf(stdout, "worker %s takes no new turns; %s in flight\n", w.Name, turns(w.Inflight))
		busy += w.Inflight
	}
	if d.Wait > 0 && busy > 0 {
		return fmt.Errorf("%s still in flight after %s; they go on, and the drain holds", turns(busy), d.Wait)
	}
	return nil
}

// Undrain lets a worker, or all if it is empty, take turns again, and prints their
// state.
func Undrain(ctx context.Context, client *control.Client, worker string, stdout io.Writer) error {
	report, err := client.Undrain(ctx, control.Request{Worker: worker})
	if err != nil {
		return err
	}
	for _, w := range chosen(report, worker) {
		state := "is " + string(w.Reason)
		if w.Reason == probes.NoWorker {
			state = "has gone from config.toml, and finishes its turns from before the reload"
		}
		fmt.Fprintf(stdout, "worker %s is not drained; it %s\n", w.Name, state)
	}
	return nil
}

// ForStop is ExecStop=. systemd runs it after a crash, too, but passes no MAINPID
// then (systemd.service(5)): nothing is to be drained, and the restart waits. Without
// a proxy there are no turns either.
func (d Drain) ForStop(ctx context.Context, stderr io.Writer) error {
	invocation := os.Getenv("INVOCATION_ID")
	if os.Getenv("MAINPID") == "" || invocation == "" {
		return nil
	}
	notifier, err := notify.FromEnv(slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo)))
	if err != nil {
		return err
	}
	request := control.Request{Worker: d.Worker, Invocation: invocation}
	report, err := extending(notifier, func() (probes.Report, error) { return d.inSlices(ctx, request, stopSlice) })
	if errors.Is(err, control.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, w := range chosen(report, d.Worker) {
		if w.Inflight > 0 {
			return fmt.Errorf("%s still in flight after %s; they end with the worker", turns(w.Inflight), d.Wait)
		}
	}
	return nil
}

// inSlices repeats the request until no turn is in flight or Wait is over: a reload
// answers early.
func (d Drain) inSlices(ctx context.Context, request control.Request, slice time.Duration) (probes.Report, error) {
	deadline := time.Now().Add(d.Wait)
	for {
		request.WaitMS = max(0, min(time.Until(deadline), slice)).Milliseconds()
		report, err := d.Client.Drain(ctx, request)
		if err != nil || request.WaitMS == 0 || idle(chosen(report, d.Worker)) {
			return report, err
		}
	}
}

func idle(workers []probes.Worker) bool {
	return !slices.ContainsFunc(workers, func(w probes.Worker) bool { return w.Inflight > 0 })
}

// extending extends the unit's TimeoutStopSec= while drain runs, which has a bound of
// its own.
func extending(notifier *notify.Notifier, drain func() (probes.Report, error)) (report probes.Report, err error) {
	done := make(chan struct{})
	go func() {
		report, err = drain()
		close(done)
	}()
	extend := time.NewTicker(notify.ExtendEvery)
	defer extend.Stop()
	for {
		select {
		case <-done:
			return report, err
		case <-extend.C:
			notifier.ExtendTimeout(notify.ExtendBy)
			notifier.Status("Stopping: turns in flight are finished first")
		}
	}
}

// chosen returns the workers of a command.
func chosen(r probes.Report, worker string) []probes.Worker {
	if worker == "" {
		return r.Workers
	}
	for i, w := range r.Workers {
		if w.Name == worker {
			return r.Workers[i : i+1]
		}
	}
	return nil
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprintf("%d turns", n)
}

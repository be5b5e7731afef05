package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/probes"
	"codex-proxy/proxy/control"
)

const drainUsage = `Usage: codex-proxy drain [WORKER] [--wait[=TIMEOUT]] [--stop] [--socket PATH]

Lets a worker, or all of them, take no new turns. Turns in flight go on. This
holds until codex-proxy undrain, also when the worker is restarted.

  --wait[=TIMEOUT]    return when no turn is in flight any more, and fail after
                      TIMEOUT (5m), saying what is left
  --stop              as ExecStop= of codex-worker@WORKER.service: drain the run
                      that is being stopped, and not the next one
  --socket PATH       the daemon's control socket (as config.toml says)
`

const undrainUsage = `Usage: codex-proxy undrain [WORKER] [--socket PATH]

Lets a worker, or all of them, take turns again after codex-proxy drain.

  --socket PATH       the daemon's control socket (as config.toml says)
`

const (
	// defaultWait is that of drain_timeout in config.toml.
	defaultWait = 5 * time.Minute
	// stopSlice is how long a stop waits without an answer to be had: it goes
	// past a proxy that hangs, and on with the one that a reload has put in its
	// place.
	stopSlice = 2 * time.Second
)

// drainOptions is one command line of drain.
type drainOptions struct {
	worker string
	wait   time.Duration
	stop   bool
	client *control.Client
}

// drainCommand is `codex-proxy drain`.
func drainCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o drainOptions
	flags := flag.NewFlagSet("drain", flag.ContinueOnError)
	flags.BoolVar(&o.stop, "stop", false, "")
	wait := ""
	flags.BoolFunc("wait", "", func(text string) error { wait = text; return nil })
	status, done := o.parse(flags, args, drainUsage, stdout, stderr)
	if done {
		return status
	}
	if err := o.parseWait(wait); err != nil {
		return fail(stderr, "drain", err, exitUsage)
	}
	if o.stop {
		return o.drainForStop(ctx, stderr)
	}
	report, err := o.drainInSlices(ctx, control.Request{Worker: o.worker}, o.wait)
	if err != nil {
		return fail(stderr, "drain", err, exitFailure)
	}
	busy := 0
	for _, w := range chosen(report, o.worker) {
		fmt.Fprintf(stdout, "worker %s takes no new turns; %s in flight\n", w.Name, turns(w.Inflight))
		busy += w.Inflight
	}
	if o.wait > 0 && busy > 0 {
		return fail(stderr, "drain", fmt.Errorf("%s still in flight after %s; they go on, and the drain holds", turns(busy), o.wait), exitFailure)
	}
	return exitOK
}

// undrainCommand is `codex-proxy undrain`.
func undrainCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o drainOptions
	flags := flag.NewFlagSet("undrain", flag.ContinueOnError)
	if status, done := o.parse(flags, args, undrainUsage, stdout, stderr); done {
		return status
	}
	report, err := o.client.Undrain(ctx, control.Request{Worker: o.worker})
	if err != nil {
		return fail(stderr, "undrain", err, exitFailure)
	}
	for _, w := range chosen(report, o.worker) {
		state := "is " + string(w.Reason)
		if w.Reason == probes.NoWorker {
			state = "has gone from config.toml, and finishes its turns from before the reload"
		}
		fmt.Fprintf(stdout, "worker %s is not drained; it %s\n", w.Name, state)
	}
	return exitOK
}

// parse reads what drain and undrain have in common.
func (o *drainOptions) parse(flags *flag.FlagSet, args []string, usage string, stdout, stderr io.Writer) (int, bool) {
	socket := controlFlag(flags)
	words, rest := splitWords(args)
	if status, done := parseFlags(flags, rest, usage, stdout, stderr); done {
		return status, true
	}
	words = append(words, flags.Args()...)
	if len(words) > 1 || o.stop && len(words) == 0 {
		return fail(stderr, flags.Name(), errors.New("one WORKER is wanted, or none for all of them; see --help"), exitUsage), true
	}
	if len(words) == 1 {
		o.worker = words[0]
	}
	o.client = control.NewClient(socket())
	return exitOK, false
}

// parseWait takes --wait and --wait=TIMEOUT.
func (o *drainOptions) parseWait(text string) (err error) {
	switch text {
	case "":
		return nil
	case "true": // flag.BoolFunc's word for an option without a value
		o.wait = defaultWait
		return nil
	}
	if o.wait, err = time.ParseDuration(text); err != nil || o.wait <= 0 {
		return fmt.Errorf("--wait=%s: the timeout must be a time such as 30s or 5m; leave --wait out to wait for nothing; see --help", text)
	}
	return nil
}

// drainForStop is ExecStop=. systemd runs it after a crash, too, but passes no
// MAINPID then (systemd.service(5)): there is nothing to drain, and the restart
// waits. A proxy that is not there has no turns either, and is left alone.
func (o *drainOptions) drainForStop(ctx context.Context, stderr io.Writer) int {
	invocation := os.Getenv("INVOCATION_ID")
	if os.Getenv("MAINPID") == "" || invocation == "" {
		return exitOK
	}
	notifier, err := notify.FromEnv(slog.New(journal.NewHandler(stderr, slog.LevelInfo)))
	if err != nil {
		return fail(stderr, "drain", err, exitFailure)
	}
	request := control.Request{Worker: o.worker, Invocation: invocation}
	report, err := extending(notifier, func() (probes.Report, error) { return o.drainInSlices(ctx, request, stopSlice) })
	if errors.Is(err, control.ErrNotRunning) {
		return exitOK
	}
	if err != nil {
		return fail(stderr, "drain", err, exitFailure)
	}
	for _, w := range chosen(report, o.worker) {
		if w.Inflight > 0 {
			return fail(stderr, "drain", fmt.Errorf("%s still in flight after %s; they end with the worker", turns(w.Inflight), o.wait), exitFailure)
		}
	}
	return exitOK
}

// drainInSlices asks again and again until no turn is in flight or the time is
// over: a reload answers early.
func (o *drainOptions) drainInSlices(ctx context.Context, request control.Request, slice time.Duration) (probes.Report, error) {
	deadline := time.Now().Add(o.wait)
	for {
		request.WaitMS = max(0, min(time.Until(deadline), slice)).Milliseconds()
		report, err := o.client.Drain(ctx, request)
		if err != nil || request.WaitMS == 0 || idle(chosen(report, o.worker)) {
			return report, err
		}
	}
}

func idle(workers []probes.Worker) bool {
	return !slices.ContainsFunc(workers, func(w probes.Worker) bool { return w.Inflight > 0 })
}

// extending asks systemd for more time than TimeoutStopSec= while the drain
// goes on; it is the drain that has the bound.
func extending(notifier *notify.Notifier, drain func() (probes.Report, error)) (report probes.Report, err error) {
	done := make(chan struct{})
	go func() {
		report, err = drain()
		close(done)
	}()
	extend := time.NewTicker(extendEvery)
	defer extend.Stop()
	for {
		select {
		case <-done:
			return report, err
		case <-extend.C:
			notifier.ExtendTimeout(extendBy)
			notifier.Status("Stopping: turns in flight are finished first")
		}
	}
}

// chosen are the workers that a command was about.
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/journal"
	"codex-proxy/notify"
	"codex-proxy/probes"
	"codex-proxy/proxy/control"
)

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

func drainCommand() *cobra.Command {
	var o drainOptions
	c := &cobra.Command{
		Use: "drain [WORKER]", Short: "let a worker, or all, take no new turns", ValidArgsFunction: completeWorkers,
		Long: `
Lets a worker, or all of them, take no new turns. Turns in flight go on. This
holds until codex-proxy undrain, also when the worker is restarted.`,
	}
	flags := c.Flags()
	flags.Var(cli.Parsed("TIMEOUT", "", o.setWait), "wait", `return when no turn is in flight any more, and fail after
TIMEOUT (5m), with what is left`)
	flags.Lookup("wait").NoOptDefVal = defaultWait.String()
	flags.BoolVar(&o.stop, "stop", false, `as ExecStop= of codex-worker@WORKER.service:
drain the run that is being stopped, and not the next one`)
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, args []string) error {
		o.client = control.NewClient(socket())
		if len(args) > 0 {
			o.worker = args[0]
		}
		switch {
		case !o.stop:
			return o.drain(c.Context(), c.OutOrStdout())
		case o.worker == "":
			return cli.Misuse(c, "--stop wants one WORKER")
		default:
			return o.drainForStop(c.Context(), c.ErrOrStderr())
		}
	}
	return c
}

func (o *drainOptions) drain(ctx context.Context, stdout io.Writer) error {
	report, err := o.drainInSlices(ctx, control.Request{Worker: o.worker}, o.wait)
	if err != nil {
		return err
	}
	busy := 0
	for _, w := range chosen(report, o.worker) {
		fmt.Fprintf(stdout, "worker %s takes no new turns; %s in flight\n", w.Name, turns(w.Inflight))
		busy += w.Inflight
	}
	if o.wait > 0 && busy > 0 {
		return fmt.Errorf("%s still in flight after %s; they go on, and the drain holds", turns(busy), o.wait)
	}
	return nil
}

func undrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "undrain [WORKER]", Short: "let them take turns again", ValidArgsFunction: completeWorkers,
		Long: `
Lets a worker, or all of them, take turns again after codex-proxy drain.`,
	}
	socket := controlFlag(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return undrain(c.Context(), control.NewClient(socket()), strings.Join(args, ""), c.OutOrStdout())
	}
	return c
}

func undrain(ctx context.Context, client *control.Client, worker string, stdout io.Writer) error {
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

// setWait reads the value of --wait.
func (o *drainOptions) setWait(text string) (err error) {
	if o.wait, err = time.ParseDuration(text); err != nil || o.wait <= 0 {
		return errors.New("the timeout must be a time such as 30s or 5m; leave --wait out to wait for nothing")
	}
	return nil
}

// drainForStop is ExecStop=. systemd runs it after a crash, too, but passes no
// MAINPID then (systemd.service(5)): there is nothing to drain, and the restart
// waits. A proxy that is not there has no turns either, and is left alone.
func (o *drainOptions) drainForStop(ctx context.Context, stderr io.Writer) error {
	invocation := os.Getenv("INVOCATION_ID")
	if os.Getenv("MAINPID") == "" || invocation == "" {
		return nil
	}
	notifier, err := notify.FromEnv(slog.New(journal.NewHandler(stderr, slog.LevelInfo)))
	if err != nil {
		return err
	}
	request := control.Request{Worker: o.worker, Invocation: invocation}
	report, err := extending(notifier, func() (probes.Report, error) { return o.drainInSlices(ctx, request, stopSlice) })
	if errors.Is(err, control.ErrNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, w := range chosen(report, o.worker) {
		if w.Inflight > 0 {
			return fmt.Errorf("%s still in flight after %s; they end with the worker", turns(w.Inflight), o.wait)
		}
	}
	return nil
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

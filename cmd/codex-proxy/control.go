package main

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/drain"
	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/status"
	"codex-proxy/internal/cli"
	"codex-proxy/workers/control"
)

// controlFlag adds the option --socket. Called after the options are parsed, the
// function returns the path of the control socket.
func controlFlag(flags *pflag.FlagSet) func() string {
	var path string
	flags.Var(cli.Text(&path, "PATH"), "socket", "the daemon's control socket (by default that of config.toml)")
	return func() string { return cmp.Or(path, controlSocket(config.DefaultPath)) }
}

// controlSocket is where the daemon of these settings listens. If they are bad, a
// daemon that runs has read other ones, and a stop must find it.
func controlSocket(settings string) string {
	places, _ := config.LoadPlaces(settings)
	return places.Socket()
}

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "show whether the service is ready, and each worker",
		Long: `
Shows whether the service is ready, and each worker: its unit and state, whether
it takes turns and why, restarts, the next start, turns in flight, its last exit;
which codex runs; and what holds while there is no API key.
It succeeds whether the service is ready or not.`,
	}
	flags := c.Flags()
	asJSON := flags.Bool("json", false, "the report of /healthz, one line")
	watch := flags.Bool("watch", false, "again after every change, until Ctrl-C")
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := c.OutOrStdout()
		view := status.View{
			Client: control.NewClient(socket()), Out: out, JSON: *asJSON,
			Terminal: cli.IsTerminal(out), Keyless: apikeys.Keyless, Codex: codexNotes,
		}
		if *watch {
			return view.Watch(c.Context())
		}
		return view.Once(c.Context())
	}
	return c
}

func drainCommand() *cobra.Command {
	var d drain.Drain
	stop := false
	c := &cobra.Command{
		Use: "drain [WORKER]", Short: "keep new turns from a worker, or from all", ValidArgsFunction: completeWorkers,
		Long: `
Keeps new turns from a worker, or from all of them. Turns in flight go on. This
lasts until codex-proxy undrain, also when the worker is restarted. A drain is of
the worker and ends with the service, whereas codex-proxy accounts pause is of the
account and survives restarts of the service.`,
	}
	flags := c.Flags()
	flags.Var(cli.Parsed("TIMEOUT", "", func(text string) (err error) {
		if d.Wait, err = time.ParseDuration(text); err != nil || d.Wait <= 0 {
			return errors.New("the timeout must be a time such as 30s or 5m; leave --wait out to wait for nothing")
		}
		return nil
	}), "wait", `return when no turn is in flight, and fail after
TIMEOUT (5m), with what is left`)
	flags.Lookup("wait").NoOptDefVal = drain.DefaultWait.String()
	flags.BoolVar(&stop, "stop", false, `as ExecStop= of codex-worker@WORKER.service:
drain the run that is being stopped, and not the next one`)
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, args []string) error {
		d.Client = control.NewClient(socket())
		if len(args) > 0 {
			d.Worker = args[0]
		}
		switch {
		case !stop:
			return d.Run(c.Context(), c.OutOrStdout())
		case d.Worker == "":
			return cli.Misuse(c, "--stop wants one WORKER")
		default:
			return d.ForStop(c.Context(), c.ErrOrStderr())
		}
	}
	return c
}

func undrainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "undrain [WORKER]", Short: "admit turns again", ValidArgsFunction: completeWorkers,
		Long: `
Admits turns to a worker, or to all of them, again after codex-proxy drain.`,
	}
	socket := controlFlag(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return drain.Undrain(c.Context(), control.NewClient(socket()), strings.Join(args, ""), c.OutOrStdout())
	}
	return c
}

func requestsCommand() *cobra.Command {
	t := recent.Table{}
	c := &cobra.Command{
		Use: "requests", Short: "list the last requests of the API",
		Long: `
Lists the last 500 requests that have ended, the newest last: status, outcome, key,
model, worker, times and tokens, and no content. The service keeps them in memory,
also over a reload. The journal has older ones, and codex's text of an error:
journalctl CODEX_REQUEST_ID=ID. Run it as root.`,
	}
	flags := c.Flags()
	flags.BoolVar(&t.Failed, "failed", false, "only those that have ended in an error")
	flags.BoolVar(&t.JSON, "json", false, `one JSON object, with the fields of the journal:
  {"requests":[{"number","at","request_id","response_id",
    "method","route","status","outcome","key","model",
    "worker","thread_id","trace_id","stream","attempts",
    "duration_ms","queued_ms","ttfb_ms","first_text_ms",
    "input_tokens","output_tokens"}]}`)
	flags.BoolVar(&t.Watch, "watch", false, "again after every change, until Ctrl-C")
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		t.Client, t.Stdout = control.NewClient(socket()), c.OutOrStdout()
		return t.Run(c.Context())
	}
	return c
}

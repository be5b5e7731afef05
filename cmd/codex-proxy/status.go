package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/proxy/control"
)

// refresh is how often a terminal is redrawn between two changes, so that the
// durations on it are true.
const refresh = time.Second

// clearScreen moves to the top left and erases what is there (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

func statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "show whether the service is ready, and each worker",
		Long: `
Shows whether the service is ready, and each worker: its unit and state, whether
it takes turns and why, restarts, the next start, turns in flight, its last exit;
and what holds while there is no API key.
It succeeds whether the service is ready or not.`,
	}
	flags := c.Flags()
	asJSON := flags.Bool("json", false, "the report of /healthz, one line")
	watch := flags.Bool("watch", false, "again after every change, until Ctrl-C")
	socket := controlFlag(flags)
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := c.OutOrStdout()
		v := view{client: control.NewClient(socket()), out: out, json: *asJSON, terminal: isTerminal(out)}
		if *watch {
			return v.watch(c.Context())
		}
		return v.once(c.Context())
	}
	return c
}

// view shows reports as one command line asked for them.
type view struct {
	client   *control.Client
	out      io.Writer
	json     bool
	terminal bool
}

func (v view) once(ctx context.Context) error {
	report, raw, err := v.client.Status(ctx)
	if err != nil {
		return err
	}
	return v.show(ctx, report, raw)
}

func (v view) show(ctx context.Context, report probes.Report, raw []byte) error {
	var page bytes.Buffer
	if v.json {
		page.Write(append(bytes.TrimSpace(raw), '\n'))
	} else {
		writeStatus(&page, report, time.Now())
		if keys, err := v.client.Keys(ctx); err == nil && keys.Count == 0 {
			fmt.Fprintf(&page, "\n%s\n", keyless(keys))
		}
	}
	_, err := v.out.Write(page.Bytes())
	return err
}

// watch shows every change until Ctrl-C: on a terminal in place, elsewhere one
// after the other.
func (v view) watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if !v.terminal || v.json {
		shown := 0
		return v.client.Watch(ctx, func(r probes.Report, raw []byte) error {
			if shown++; shown > 1 && !v.json {
				fmt.Fprintln(v.out)
			}
			return v.show(ctx, r, raw)
		})
	}
	return v.redraw(ctx)
}

func (v view) redraw(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	reports, ended := make(chan probes.Report), make(chan error, 1)
	go func() {
		ended <- v.client.Watch(ctx, func(r probes.Report, _ []byte) error {
			select {
			case reports <- r:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	defer func() {
		cancel()
		ended <- <-ended // wait for it, whoever has taken its word
	}()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	var latest *probes.Report
	for {
		select {
		case r := <-reports:
			latest = &r
		case err := <-ended:
			ended <- err
			return err
		case <-tick.C:
		}
		if latest == nil {
			continue
		}
		fmt.Fprint(v.out, clearScreen)
		if err := v.show(ctx, *latest, nil); err != nil {
			return err
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

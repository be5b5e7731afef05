// Package status shows the report of the daemon to people.
package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// refresh is how often a terminal is redrawn between two changes, so that the
// durations on it are true.
const refresh = time.Second

// clearScreen moves to the top left and erases the screen (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

// View shows reports of the daemon.
type View struct {
	Client *control.Client
	Out    io.Writer
	JSON   bool // the report as the daemon sends it, one line
	// Terminal redraws one page in Watch.
	Terminal bool
	// Codex returns sentences on the codex of the machine.
	Codex func() []string
	// Keyless returns a sentence for missing keys.
	Keyless func(control.Keys) string
}

// Once shows the present report.
func (v View) Once(ctx context.Context) error {
	report, raw, err := v.Client.Status(ctx)
	if err != nil {
		return err
	}
	return v.show(ctx, report, raw)
}

func (v View) show(ctx context.Context, report probes.Report, raw []byte) error {
	var page bytes.Buffer
	if v.JSON {
		page.Write(append(bytes.TrimSpace(raw), '\n'))
	} else {
		writeTable(&page, report, time.Now())
		writeCodex(&page, report.Workers, v.Codex())
		if keys, err := v.Client.Keys(ctx); err == nil && keys.Count == 0 {
			fmt.Fprintf(&page, "\n%s\n", v.Keyless(keys))
		}
	}
	_, err := v.Out.Write(page.Bytes())
	return err
}

// Watch shows every change until SIGINT, SIGTERM or the end of ctx.
func (v View) Watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if v.Terminal && !v.JSON {
		return v.redraw(ctx)
	}
	shown := 0
	return v.Client.Watch(ctx, func(r probes.Report, raw []byte) error {
		if shown++; shown > 1 && !v.JSON {
			fmt.Fprintln(v.Out)
		}
		return v.show(ctx, r, raw)
	})
}

func (v View) redraw(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	reports, ended := make(chan probes.Report), make(chan error, 1)
	go func() {
		ended <- v.Client.Watch(ctx, func(r probes.Report, _ []byte) error {
			select {
			case reports <- r:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	defer func() {
		cancel()
		ended <- <-ended // the goroutine has ended, even if its error was taken before
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
		fmt.Fprint(v.Out, clearScreen)
		if err := v.show(ctx, *latest, nil); err != nil {
			return err
		}
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// runSoak loads one daemon with all kinds of requests, and prints how its memory
// and its open files go.
func (b *bench) runSoak(ctx context.Context) error {
	return b.with(ctx, 2, func(d *daemon) error {
		t := tabwriter.NewWriter(os.Stdout, 10, 0, 2, ' ', 0)
		fmt.Fprintln(t, "after\trequests\tRSS MiB\tfiles\tCPU µs a request\t")
		began, done, body := time.Now(), 0, coding()
		next := time.Duration(0)
		cpu, err := d.cpu()
		if err != nil {
			return err
		}
		for since := 0; time.Since(began) < b.soak; {
			for _, l := range []load{
				{clients: 16, requests: 2000, body: chat(askAnswer, false)},
				{clients: 64, requests: 256, body: chat(askFrames(64, 2*time.Millisecond, len(frameText)), true),
					stream: true},
				{clients: 2, requests: 4, body: func(i int) []byte { return body(done + i) }},
			} {
				if _, _, err := d.target().measure(ctx, l); err != nil {
					return err
				}
				done, since = done+l.requests, since+l.requests
			}
			if time.Since(began) < next {
				continue
			}
			next += max(b.soak/30, time.Second)
			now, err := d.cpu()
			if err != nil {
				return err
			}
			if err := d.curve(t, time.Since(began), done, (now-cpu)/time.Duration(since)); err != nil {
				return err
			}
			cpu, since = now, 0
		}
		return nil
	})
}

func (d *daemon) curve(t *tabwriter.Writer, after time.Duration, done int, cpu time.Duration) error {
	rss, err := d.memory("VmRSS")
	if err != nil {
		return err
	}
	files, err := d.files()
	if err != nil {
		return err
	}
	fmt.Fprintf(t, "%s\t%d\t%.1f\t%d\t%.0f\t\n", after.Round(time.Second), done, rss, files, micros(cpu))
	return t.Flush()
}

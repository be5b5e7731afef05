package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/test/bench/figures"
)

// paced is how long the model takes for a turn of turnsInFlight: 40 deltas, 50 ms apart.
const paced = 2 * time.Second

// pacedSteps is the script of such a turn.
func pacedSteps() (steps []string) {
	for range 40 {
		steps = append(steps, "delay 50ms", "text "+frameText)
	}
	return steps
}

// turnsInFlight is what turns cost a real codex of its own, by how many are in flight at
// the same time: the source of the default of max_inflight.
func (b *bench) turnsInFlight(ctx context.Context) error {
	for _, clients := range []int{16, 32, 64, 96} {
		for _, prompt := range []struct {
			what string
			body func(int) []byte
		}{{"", chat(askAnswer, true)}, {", prompts of 500 KB", streamed(coding())}} {
			l := load{clients: clients, requests: 3 * clients, body: prompt.body, stream: true}
			what := fmt.Sprintf("%d in flight%s", clients, prompt.what)
			if err := b.withCodex(ctx, b.codex, manyPlaces, pacedSteps(), func(codex *process, d *daemon) error {
				return b.codexUnder(ctx, codex, d, l, what)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// streamed is the body of a request that asks for a stream.
func streamed(body func(int) []byte) func(int) []byte {
	return func(i int) []byte {
		return []byte(strings.Replace(string(body(i)), `{`, `{"stream":true,`, 1))
	}
}

// codexUnder measures codex itself under a load.
func (b *bench) codexUnder(ctx context.Context, codex *process, d *daemon, l load, what string) error {
	warm := l
	warm.clients, warm.requests = 4, 4
	if _, _, err := d.target().measure(ctx, warm); err != nil {
		return err
	}
	if err := codex.resetPeak(); err != nil {
		return err
	}
	of := d.target()
	of.process = codex
	cpu, s, err := of.measure(ctx, l)
	if err != nil {
		return err
	}
	peak, err := codex.memory("VmHWM")
	b.result.One("codex, CPU of a turn of 40 deltas: "+what, "ms", 0, micros(cpu)/1000)
	b.result.One("codex, peak RSS: "+what, "MiB", 0, peak)
	b.result.Add(figures.Row{What: "time to the first text beyond the model's own: " + what + ", p50", Unit: "ms", Quiet: true,
		Values: map[string]float64{ours: micros(quantile(s.first, 0.5)-50*time.Millisecond) / 1000}})
	b.result.Add(figures.Row{What: "time to the first text beyond the model's own: " + what + ", p99", Unit: "ms", Quiet: true,
		Values: map[string]float64{ours: micros(quantile(s.first, 0.99)-50*time.Millisecond) / 1000}})
	b.result.Add(figures.Row{What: "time to the end beyond the model's own: " + what + ", p99", Unit: "ms", Quiet: true,
		Values: map[string]float64{ours: micros(quantile(s.whole, 0.99)-paced) / 1000}})
	return err
}

// bursts are calls of one key that come all at the same time, to a service with the
// default settings: each of them is answered, without a retry of its client.
func (b *bench) bursts(ctx context.Context) error {
	for _, burst := range []struct {
		calls   int
		lasts   time.Duration
		slowest float64 // seconds
	}{{100, 3 * time.Second, 15}, {64, 30 * time.Second, 70}} {
		steps := []string{"delay " + burst.lasts.String(), "text It is a fine day."}
		if err := b.withCodex(ctx, b.codex, "", steps, func(_ *process, d *daemon) error {
			l := load{clients: burst.calls, requests: burst.calls, body: chat(askAnswer, false)}
			_, s, err := d.target().measure(ctx, l)
			if err != nil {
				return err
			}
			b.result.Add(figures.Row{What: fmt.Sprintf("burst of %d calls of %s, slowest", burst.calls, burst.lasts), Unit: "s",
				Limit: burst.slowest, Values: map[string]float64{ours: quantile(s.whole, 1).Seconds()}})
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// withCodex runs do with the codex of that path, a model endpoint whose answers have these steps,
// and a daemon with these settings in front.
func (b *bench) withCodex(ctx context.Context, program, settings string, steps []string,
	do func(*process, *daemon) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	defer func() { cancel(); _ = running.Wait() }() // the error is the end of ctx
	if err := serveModels(ctx, &running, steps...); err != nil {
		return err
	}
	codex, socket, err := b.startCodex(ctx, program)
	if err != nil {
		return err
	}
	defer codex.stop()
	d, err := b.startBefore(ctx, socket, settings)
	if d != nil {
		defer d.stop()
	}
	if err != nil {
		return err
	}
	return do(codex, d)
}

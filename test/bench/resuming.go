package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"codex-proxy/test/bench/figures"
)

// resumes is how many streams are resumed for a row and round.
const resumes = 100

// resumedStreams is the time from a request for the rest of a stream to its first event: of a response in flight, whose
// next events have been written, and of one that has ended, alone and among the streams of others.
func (b *bench) resumedStreams(ctx context.Context) error {
	return b.with(ctx, 1, func(d *daemon) error {
		r := d.responses()
		defer r.CloseIdleConnections()
		live, err := r.begin(ctx, askHold, true)
		if err != nil {
			return err
		}
		defer func() { _ = r.cancel(context.WithoutCancel(ctx), live) }()
		if _, err := r.resume(ctx, live, 0, "delta"); err != nil { // it has begun
			return err
		}
		ended, err := r.begin(ctx, askFrames(64, 0, len(frameText)), true)
		if err != nil {
			return err
		}
		if _, err := r.resume(ctx, ended, 0, "completed"); err != nil {
			return err
		}
		return b.resumedRows(ctx, r, live, ended)
	})
}

func (b *bench) resumedRows(ctx context.Context, r responses, live, ended string) error {
	for _, row := range []struct {
		what   string
		others int
	}{{"", 0}, {", among 16 streams at a model's pace", 16}} {
		stop := b.streamsBeside(ctx, r.daemon, row.others)
		var lives, endeds []time.Duration
		for range b.rounds * resumes {
			for _, of := range []struct {
				id    string
				after int
				took  *[]time.Duration
			}{{live, 2, &lives}, {ended, 40, &endeds}} {
				took, err := r.resume(ctx, of.id, of.after, "delta")
				if err != nil {
					_ = stop()
					return err
				}
				*of.took = append(*of.took, took)
			}
		}
		if err := stop(); err != nil {
			return err
		}
		b.resumed("in flight"+row.what, lives)
		b.resumed("that has ended"+row.what, endeds)
	}
	return nil
}

// resumed adds the rows of a kind of response.
func (b *bench) resumed(what string, took []time.Duration) {
	for _, q := range []struct {
		name string
		of   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		b.result.Add(figures.Row{What: fmt.Sprintf("a resumed stream's first event: %s, %s", what, q.name), Unit: "ms",
			Limit: 20, Quiet: true, Values: map[string]float64{ours: micros(quantile(took, q.of)) / 1000}})
	}
}

// streamsBeside keeps clients busy with streams until stop, which returns their error.
func (b *bench) streamsBeside(ctx context.Context, d *daemon, clients int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	paced := chat(askFrames(64, 20*time.Millisecond, len(frameText)), true)
	var running sync.WaitGroup
	var failed error
	if clients > 0 {
		running.Go(func() {
			for ctx.Err() == nil && failed == nil {
				l := load{clients: clients, requests: clients, body: paced, stream: true}
				_, _, failed = d.target().measure(context.WithoutCancel(ctx), l)
			}
		})
	}
	return func() error { cancel(); running.Wait(); return failed }
}

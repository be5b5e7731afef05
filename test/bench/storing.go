package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/proxy/stored"

	"codex-proxy/test/bench/figures"
)

const (
	// chainTurns is how long a chain becomes.
	chainTurns = 1000
	// chainEdge is how many of its turns are compared, at its beginning and at its end.
	chainEdge = 100
)

// storing is what a turn of a long chain costs beside one of a short chain: in one
// store, by turns, so that both have the machine of the same moment.
func (b *bench) storing(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.dir, "stored-")
	if err != nil {
		return err
	}
	limits := stored.Limits{Retention: time.Hour, Bytes: 1 << 30, Count: 100_000}
	s := stored.New(stored.Settings{
		Path: filepath.Join(dir, stored.FileName), Limits: limits, Registry: prometheus.NewRegistry(),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err := s.Open(ctx); err != nil {
		return err
	}
	defer s.Close()
	long := &chain{store: s, name: "long"}
	for range chainTurns - chainEdge {
		if _, err := long.put(ctx); err != nil {
			return err
		}
	}
	short := &chain{store: s, name: "short"}
	var first, last []time.Duration
	for range chainEdge {
		for _, of := range []struct {
			*chain
			took *[]time.Duration
		}{{short, &first}, {long, &last}} {
			took, err := of.put(ctx)
			if err != nil {
				return err
			}
			*of.took = append(*of.took, took)
		}
	}
	b.result.One(fmt.Sprintf("storing: a turn of 64 KiB, of the first %d of a chain, p50", chainEdge), "µs", 0,
		micros(quantile(first, 0.5)))
	b.result.One(fmt.Sprintf("storing: likewise, of the last %d of %d", chainEdge, chainTurns), "µs",
		micros(quantile(first, 0.5))*1.25, micros(quantile(last, 0.5)))
	return b.storingBeside(ctx, long)
}

// storingBeside is how long another key waits for its first response to be stored
// while a long chain goes on.
func (b *bench) storingBeside(ctx context.Context, long *chain) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := long.put(context.WithoutCancel(ctx)); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	var waits []time.Duration
	var failed error
	for i := range chainEdge {
		other := &chain{store: long.store, name: fmt.Sprintf("other%d", i)}
		took, err := other.put(ctx)
		if failed = err; err != nil {
			break
		}
		waits = append(waits, took)
	}
	stop()
	if err := errors.Join(failed, <-ended); err != nil {
		return err
	}
	b.result.One("storing: another key's first response meanwhile, p50", "ms", 0, micros(quantile(waits, 0.5))/1000)
	b.result.Add(figures.Row{What: "storing: likewise, slowest", Unit: "ms", Quiet: true,
		Values: map[string]float64{ours: micros(quantile(waits, 1)) / 1000}})
	return nil
}

// chain is a conversation of one API key.
type chain struct {
	store *stored.File
	name  string
	turns int
}

// put stores the next turn, and returns how long that took.
func (c *chain) put(ctx context.Context) (time.Duration, error) {
	r := stored.Response{
		ID: fmt.Sprintf("resp_%s_%d", c.name, c.turns), Owner: c.name, Worker: "w0", Object: make([]byte, 64<<10),
		Input: []stored.Item{{ID: fmt.Sprintf("msg_in_%s_%d", c.name, c.turns), JSON: json.RawMessage(`"question"`)}},
		Output: []stored.Item{{ID: fmt.Sprintf("msg_out_%s_%d", c.name, c.turns),
			JSON: json.RawMessage(`"answer"`), Worker: "w0"}},
	}
	if c.turns > 0 {
		r.Previous = fmt.Sprintf("resp_%s_%d", c.name, c.turns-1)
	}
	c.turns++
	began := time.Now()
	err := c.store.Put(ctx, r)
	return time.Since(began), err
}

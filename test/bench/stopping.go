package main

import (
	"context"
	"encoding/json"
	"time"
)

// stopping is a kind of stop sequences; none of them is in the answer.
type stopping struct {
	what string
	stop []string
}

var stoppings = []stopping{
	{"without stop", nil},
	{"with four stop sequences", []string{"\nObservation:", "<|im_end|>", "END", "eighty"}},
	{"with text held back in every frame", []string{"by!"}},
}

// stopSequences compares streams with stop sequences with the same streams without, on
// one daemon: in each of many short rounds, in either order, as the machine has faster and
// slower seconds.
func (b *bench) stopSequences(ctx context.Context) error {
	return b.with(ctx, 1, func(d *daemon) error {
		cpus, ratios := make([]time.Duration, 0, 8*b.rounds), make([][]float64, len(stoppings))
		for round := range 8*b.rounds + 1 {
			of, err := d.stoppingRound(ctx, round%2 == 1)
			if err != nil {
				return err
			}
			if round == 0 { // that was to warm up
				continue
			}
			cpus = append(cpus, of[0])
			for i := range of {
				ratios[i] = append(ratios[i], float64(of[i])/float64(of[0]))
			}
		}
		first := micros(quantile(cpus, 0.5))
		for i, s := range stoppings {
			limit := first * 1.02
			if i == 0 {
				limit = 0
			}
			b.result.One("CPU: stream of 64 frames, "+s.what, "µs", limit, first*quantile(ratios[i], 0.5))
		}
		return nil
	})
}

// stoppingRound is the CPU time per stream of each kind.
func (d *daemon) stoppingRound(ctx context.Context, backwards bool) (cpus []time.Duration, err error) {
	cpus = make([]time.Duration, len(stoppings))
	for n := range stoppings {
		i := n
		if backwards {
			i = len(stoppings) - 1 - n
		}
		l := load{clients: 4, requests: 200, body: stoppings[i].body(), stream: true}
		if cpus[i], _, err = d.target().measure(ctx, l); err != nil {
			return nil, err
		}
	}
	return cpus, nil
}

func (s stopping) body() func(int) []byte {
	b, err := json.Marshal(map[string]any{"model": "demo", "stream": true, "stop": s.stop, "messages": []any{
		map[string]any{"role": "system", "content": "You are a helpful assistant."},
		map[string]any{"role": "user", "content": askFrames(64, 0, len(frameText))},
	}})
	if err != nil {
		panic(err)
	}
	return func(int) []byte { return b }
}

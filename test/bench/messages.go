package main

import (
	"context"
	"fmt"
	"time"
)

// messages compares streams of the Messages endpoint with the same streams of chat, on one daemon: in each of many short
// rounds, in either order, as the machine has faster and slower seconds.
func (b *bench) messages(ctx context.Context) error {
	prompt := askFrames(64, 0, len(frameText))
	return b.with(ctx, 1, func(d *daemon) error {
		for _, clients := range []int{1, 16} {
			l := load{clients: clients, requests: 80 * clients / min(clients, 4), stream: true, body: chat(prompt, true)}
			m := l
			m.path, m.body = messagesPath, messageAsked(prompt, true)
			if err := b.beside(ctx, d, fmt.Sprintf("stream of 64 frames at once, %d clients, ", clients), l, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// beside compares the CPU time of Messages with that of chat.
func (b *bench) beside(ctx context.Context, d *daemon, what string, chats, messages load) error {
	var base []time.Duration
	var ratios []float64
	for round := range 8*b.rounds + 1 {
		loads := []load{chats, messages}
		cpus := make([]time.Duration, len(loads))
		for n := range loads {
			i := (n + round) % len(loads)
			var err error
			if cpus[i], _, err = d.target().measure(ctx, loads[i]); err != nil {
				return err
			}
		}
		if round == 0 { // that was to warm up
			continue
		}
		base = append(base, cpus[0])
		ratios = append(ratios, float64(cpus[1])/float64(cpus[0]))
	}
	first := micros(quantile(base, 0.5))
	b.result.One("CPU: "+what+"chat", "µs", 0, first)
	b.result.One("CPU: "+what+"Messages", "µs", first*1.1, first*quantile(ratios, 0.5))
	return nil
}

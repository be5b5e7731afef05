package main

import (
	"context"
	"time"
)

// messages compares streams of the Messages endpoint with the same streams of chat, on one daemon: in each of many short
// rounds, in either order, as the machine has faster and slower seconds.
func (b *bench) messages(ctx context.Context) error {
	burst, paced := askFrames(64, 0, len(frameText)), askFrames(64, 2*time.Millisecond, len(frameText))
	return b.with(ctx, 1, func(d *daemon) error {
		for _, row := range []struct {
			what, prompt string
			load
		}{
			{"at once, 1 client", burst, load{clients: 1, requests: 80}},
			{"at once, 16 clients", burst, load{clients: 16, requests: 320}},
			{"2 ms apart, 16 clients", paced, load{clients: 16, requests: 160}},
		} {
			chats, messages := row.load, row.load
			chats.stream, chats.body = true, chat(row.prompt, true)
			messages.stream, messages.path, messages.body = true, messagesPath, messageAsked(row.prompt, true)
			if err := b.beside(ctx, d, "stream of 64 frames "+row.what+", ", chats, messages); err != nil {
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

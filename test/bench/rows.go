package main

import (
	"context"
	"fmt"
	"time"

	"codex-proxy/test/bench/figures"
)

// with runs do against a daemon of its own.
func (b *bench) with(ctx context.Context, workers int, do func(*daemon) error, env ...string) error {
	return b.withSettings(ctx, workers, manyPlaces, do, env...)
}

// withSettings is with for other settings.
func (b *bench) withSettings(ctx context.Context, workers int, settings string, do func(*daemon) error,
	env ...string) error {
	d, err := b.startProgram(ctx, b.program, workers, settings, env...)
	if d != nil {
		defer d.stop()
	}
	if err != nil {
		return err
	}
	return do(d)
}

func (b *bench) codingPrompt(ctx context.Context) error {
	for _, p := range []struct {
		what  string
		limit float64 // of its CPU time
		load
	}{
		{"", 10, load{body: coding()}},
		{" to /v1/responses", 10, load{body: codingResponse(false), path: responsesPath}},
		{" to /v1/responses, stored", 0, load{body: codingResponse(true), path: responsesPath}},
	} {
		if err := b.with(ctx, 1, func(d *daemon) error {
			return b.codingPrompts(ctx, d, p.load, p.what,
				p.limit)
		}); err != nil {
			return err
		}
	}
	return b.with(ctx, 1, func(d *daemon) error {
		l := load{clients: 64, requests: 128, body: long(4 << 20)}
		if _, _, err := d.target().measure(ctx, l); err != nil {
			return err
		}
		peak, err := d.memory("VmHWM")
		b.result.One("peak RSS: prompts of 4 MiB, 64 clients", "MiB", 700, peak)
		return err
	})
}

func (b *bench) codingPrompts(ctx context.Context, d *daemon, l load, what string, limit float64) error {
	body := l.body
	l.clients, l.requests = 1, 20
	if _, _, err := d.target().measure(ctx, l); err != nil { // warms up
		return err
	}
	if err := d.resetPeak(); err != nil {
		return err
	}
	l.requests, l.body = 20*b.rounds, func(i int) []byte { return body(i + 20) }
	cpu, _, err := d.target().measure(ctx, l)
	if err != nil {
		return err
	}
	peak, err := d.memory("VmHWM")
	b.result.One("CPU: coding prompt of 500 KB"+what, "ms", limit, micros(cpu)/1000)
	b.result.One("peak RSS: coding prompts, one at a time"+what, "MiB", 60, peak)
	return err
}

// openStreams is memory without, with and after open streams.
func (b *bench) openStreams(ctx context.Context) error {
	return b.with(ctx, 53, func(d *daemon) error {
		idle, err := d.memory("VmRSS")
		if err != nil {
			return err
		}
		b.result.One("RSS: idle, 53 workers", "MiB", 0, idle)
		before, err := d.used(ctx)
		if err != nil {
			return err
		}
		b.result.One("RSS: after 4000 chats", "MiB", 0, before)
		if _, err := b.open(ctx, d, 64, "", 40); err != nil {
			return err
		}
		first, err := b.open(ctx, d, 5000, "", 300)
		if err != nil {
			return err
		}
		after, err := b.memoryComesBack(ctx, d, before, "")
		if err != nil {
			return err
		}
		if _, err := b.open(ctx, d, 5000, ", again", first*1.1); err != nil {
			return err
		}
		_, err = b.memoryComesBack(ctx, d, after, ", again")
		return err
	})
}

// open is memory with so many open streams.
func (b *bench) open(ctx context.Context, d *daemon, streams int, which string, limit float64) (float64, error) {
	held, err := d.hold(ctx, streams, 0)
	if err != nil {
		return 0, err
	}
	defer held.close()
	rss, err := d.memory("VmRSS")
	b.result.One(fmt.Sprintf("RSS: %d open streams%s", streams, which), "MiB", limit, rss)
	return rss, err
}

// used is memory after some use.
func (d *daemon) used(ctx context.Context) (float64, error) {
	l := load{clients: 16, requests: 4000, body: chat(askAnswer, false)}
	if _, _, err := d.target().measure(ctx, l); err != nil {
		return 0, err
	}
	return d.memory("VmRSS")
}

// memoryComesBack waits up to a minute, in light use, for the memory of before.
func (b *bench) memoryComesBack(ctx context.Context, d *daemon, before float64, which string) (float64, error) {
	began := time.Now()
	for {
		after, err := d.used(ctx)
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		if after > before*1.1 && took < time.Minute {
			continue
		}
		b.result.One("RSS: after all streams have ended"+which, "MiB", before*1.1, after)
		b.result.One("until then"+which, "s", 60, took.Seconds())
		return after, nil
	}
}

// starts is exec to READY=1 with a running worker, and memory right after.
func (b *bench) starts(ctx context.Context) error {
	var took []time.Duration
	for i := range 4 * b.rounds {
		err := b.with(ctx, 1, func(d *daemon) error {
			took = append(took, d.ready)
			if i > 0 {
				return nil
			}
			const most = 22
			rss, err := d.atRest(ctx, most)
			b.result.One("RSS: idle, 1 worker", "MiB", most, rss)
			return err
		})
		if err != nil {
			return err
		}
	}
	b.result.Add(figures.Row{What: "exec to READY, p50", Unit: "ms", Limit: 60, Quiet: true,
		Values: map[string]float64{ours: micros(quantile(took, 0.5)) / 1000}})
	b.result.Add(figures.Row{What: "exec to READY, slowest", Unit: "ms", Quiet: true,
		Values: map[string]float64{ours: micros(quantile(took, 1)) / 1000}})
	return nil
}

// growthStreams is the cost of a stream among others.
func (b *bench) growthStreams(ctx context.Context) error {
	return b.with(ctx, 53, func(d *daemon) error {
		first := 0.0
		for _, clients := range []int{1, 64, 1000, 5000} {
			// A pace at which neither the fake nor the clients are the limit.
			pace := max(2*time.Millisecond, time.Duration(clients)*100*time.Microsecond)
			l := load{clients: clients, requests: max(clients, 50),
				body: chat(askFrames(64, pace, len(frameText)), true), stream: true}
			cpu, _, err := d.target().measure(ctx, l)
			if err != nil {
				return err
			}
			b.result.One(fmt.Sprintf("CPU: stream of 64 frames among %d", clients), "µs", first*1.1, micros(cpu))
			if first == 0 {
				first = micros(cpu)
			}
		}
		return nil
	})
}

// growthWorkers compares daemons with different numbers of workers, in interleaved
// rounds.
func (b *bench) growthWorkers(ctx context.Context) error {
	numbers := []int{1, 10, 50}
	daemons := make([]*daemon, len(numbers))
	for i, workers := range numbers {
		d, err := b.startDaemon(ctx, workers)
		if d != nil {
			defer d.stop()
		}
		if err != nil {
			return err
		}
		daemons[i] = d
	}
	// With one client nothing is shared by chance: sixteen share system calls the
	// more, the fewer connections they have to share.
	for _, c := range []struct {
		who string
		load
	}{{"16 clients", load{clients: 16, requests: 800}}, {"1 client", load{clients: 1, requests: 200}}} {
		c.body = chat(askAnswer, false)
		if err := b.growth(ctx, daemons, c.load, func(i int) string {
			return fmt.Sprintf("CPU: chat, %s, %d workers",
				c.who, numbers[i])
		}); err != nil {
			return err
		}
	}
	return nil
}

// growth compares the daemons with the first of them: in each of many short rounds, as the
// machine has faster and slower seconds, and in turn from the first and from the last.
func (b *bench) growth(ctx context.Context, daemons []*daemon, l load, what func(int) string) error {
	first, ratios := make([]time.Duration, 0, 4*b.rounds), make([][]float64, len(daemons))
	for round := range 4*b.rounds + 1 {
		cpus, err := b.growthRound(ctx, daemons, l, round%2 == 0)
		switch {
		case err != nil:
			return err
		case round == 0: // that is to warm up
			continue
		}
		first = append(first, cpus[0])
		for i, cpu := range cpus {
			ratios[i] = append(ratios[i], float64(cpu)/float64(cpus[0]))
		}
	}
	base := micros(quantile(first, 0.5))
	for i := range daemons {
		limit := base * 1.1
		if i == 0 {
			limit = 0
		}
		b.result.One(what(i), "µs", limit, base*quantile(ratios[i], 0.5))
	}
	return nil
}

// growthRound is the CPU time of each daemon.
func (b *bench) growthRound(ctx context.Context, daemons []*daemon, l load, fromLast bool) ([]time.Duration, error) {
	cpus := make([]time.Duration, len(daemons))
	for n := range daemons {
		i := n
		if fromLast {
			i = len(daemons) - 1 - n
		}
		cpu, _, err := daemons[i].target().measure(ctx, l)
		if err != nil {
			return nil, err
		}
		cpus[i] = cpu
	}
	return cpus, nil
}

// growthRequests compares a daemon that has had many requests with a young one.
func (b *bench) growthRequests(ctx context.Context) error {
	all := 50_000
	if b.long {
		all = 1_000_000
	}
	return b.with(ctx, 1, func(old *daemon) error {
		var rss [10]float64
		for i := range rss {
			l := load{clients: 16, requests: all / len(rss), body: chat(askAnswer, false)}
			if _, _, err := old.target().measure(ctx, l); err != nil {
				return err
			}
			var err error
			if rss[i], err = old.memory("VmRSS"); err != nil {
				return err
			}
		}
		b.result.One(fmt.Sprintf("RSS: after the second tenth of %d", all), "MiB", 0, rss[1])
		b.result.One(fmt.Sprintf("RSS: after the last tenth of %d", all), "MiB", rss[1]*1.1, rss[9])
		return b.with(ctx, 1, func(young *daemon) error {
			if _, err := young.used(ctx); err != nil {
				return err
			}
			l := load{clients: 16, requests: 800, body: chat(askAnswer, false)}
			had := []string{"a young daemon", fmt.Sprintf("one that has had %d", all)}
			return b.growth(ctx, []*daemon{young, old}, l,
				func(i int) string { return "CPU: chat, 16 clients, " + had[i] })
		})
	})
}

// releases compares the program with the release before it.
func (b *bench) releases(ctx context.Context) error {
	daemons, names := make([]*daemon, 2), []string{"the release before", "this program"}
	for i, program := range []string{b.released, b.program} {
		d, err := b.startProgram(ctx, program, 1, manyPlaces)
		if d != nil {
			defer d.stop()
		}
		if err != nil {
			return err
		}
		daemons[i] = d
	}
	burst := chat(askFrames(64, 0, len(frameText)), true)
	for _, l := range []struct {
		what string
		load
	}{
		{"chat, 1 client", load{clients: 1, requests: 200, body: chat(askAnswer, false)}},
		{"chat, 16 clients", load{clients: 16, requests: 800, body: chat(askAnswer, false)}},
		{"stream of 64 frames at once, 1 client", load{clients: 1, requests: 100, body: burst, stream: true}},
		{"stream of 64 frames at once, 16 clients", load{clients: 16, requests: 320, body: burst, stream: true}},
		{"coding prompt of 500 KB", load{clients: 1, requests: 10, body: coding()}},
	} {
		if err := b.growth(ctx, daemons, l.load, func(i int) string {
			return "CPU: " + l.what + ", " +
				names[i]
		}); err != nil {
			return err
		}
	}
	return nil
}

// collector is how long the garbage collector stops the world.
func (b *bench) collector(ctx context.Context) error {
	return b.with(ctx, 53, func(d *daemon) error {
		held, err := d.hold(ctx, 2000, 0)
		if err != nil {
			return err
		}
		defer held.close()
		l := load{clients: 16, requests: 5000, body: chat(askAnswer, false)}
		if _, _, err := d.target().measure(ctx, l); err != nil {
			return err
		}
		l = load{clients: 2, requests: 40, body: coding()}
		if _, _, err := d.target().measure(ctx, l); err != nil {
			return err
		}
		p99, n := d.talk.worst(0.99)
		if n == 0 {
			return fmt.Errorf("the collector did not run")
		}
		b.result.Add(figures.Row{What: fmt.Sprintf("pauses of the collector among 2000 streams, p99 of %d", n),
			Unit: "ms", Limit: 2, Quiet: true,
			Values: map[string]float64{ours: micros(p99) / 1000}})
		return nil
	}, "GODEBUG=gctrace=1")
}

// slowClients is what 10 000 clients that read a byte a second cost, and what
// others notice.
func (b *bench) slowClients(ctx context.Context) error {
	// One key may hold half of the memory, which is too little for 10 000 answers of 256 KB.
	return b.withSettings(ctx, 106, manyPlaces+"request_memory = 8589934592\n", func(d *daemon) error {
		others := load{clients: 4, requests: 1000, body: chat(askAnswer, false)}
		measure := func(when string) error {
			cpu, s, err := d.target().measure(ctx, others)
			if err != nil {
				return err
			}
			b.result.One("CPU: chat, 4 clients, "+when, "µs", 0, micros(cpu))
			b.result.Add(figures.Row{What: "time to the answer: chat, 4 clients, p99, " + when, Unit: "ms", Quiet: true,
				Values: map[string]float64{ours: micros(quantile(s.whole, 0.99)) / 1000}})
			return nil
		}
		if err := measure("no slow clients"); err != nil {
			return err
		}
		held, err := d.hold(ctx, 10_000, 256<<10)
		if err != nil {
			return err
		}
		defer held.close()
		if err := measure("beside 10 000 slow clients"); err != nil {
			return err
		}
		peak, err := d.memory("VmHWM")
		b.result.One("peak RSS: 10 000 clients that read a byte a second", "MiB", 1600, peak) // 160 KB each
		return err
	})
}

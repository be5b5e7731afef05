package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/test/bench/figures"
)

// bench is one run.
type bench struct {
	options
	dir     string
	result  figures.Result
	daemons int // that were started
}

// target is one way to the same answers.
type target struct {
	name, address, key string
	process            *process // whose cost counts; nil: none
}

func (b *bench) run(ctx context.Context) error {
	b.result = figures.New(ours, "nginx")
	parts := []struct {
		name string
		do   func(context.Context) error
	}{
		// Later the kernel maps the program in huge pages, which count as a whole.
		{"starts", b.starts}, {"requests", b.requests}, {"the coding prompt", b.codingPrompt},
		{"memory", b.openStreams},
		{"growth with streams", b.growthStreams}, {"growth with workers", b.growthWorkers},
		{"growth with requests", b.growthRequests},
		{"rotation", b.rotation}, {"stop sequences", b.stopSequences},
		{"messages", b.messages}, {"resumed streams", b.resumedStreams}, {"background", b.background},
		{"storing", b.storing}, {"pauses", b.collector}, {"the release before", b.releases},
		{"slow clients", b.slowClients},
		{"turns in flight", b.turnsInFlight}, {"bursts", b.bursts}, {"the real codex", b.realCodex},
		{"codex on the disk", b.codexDisk},
		{"attaching", b.attaching}, {"line", b.distance}, {"broker", b.brokerAlone},
	}
	var names []string
	for _, part := range parts {
		names = append(names, part.name)
		if !strings.Contains(part.name, b.only) {
			continue
		}
		began := time.Now()
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("cannot measure %s: %w", part.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: measured in %s\n", part.name, time.Since(began).Round(time.Second))
	}
	if len(b.result.Rows) == 0 {
		return fmt.Errorf("no part has %q in its name; there are: %s", b.only, strings.Join(names, ", "))
	}
	if err := b.result.Write(b.json); err != nil {
		return err
	}
	last, err := figures.Read(b.last)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return b.result.Table(os.Stdout, last)
}

// requests compares all targets, in interleaved rounds.
func (b *bench) requests(ctx context.Context) error {
	endpoint, err := start(os.Stderr, nil, "/proc/self/exe", endpointName)
	if err != nil {
		return err
	}
	defer endpoint.stop()
	nginx, err := b.startNginx()
	if err != nil {
		return err
	}
	defer nginx.stop()
	d, err := b.startDaemon(ctx, 1)
	if d != nil {
		defer d.stop()
	}
	if err != nil {
		return err
	}
	for _, address := range []string{endpointAddress, nginxAddress} {
		if err := until(ctx, address, dialled("tcp", address)); err != nil {
			return err
		}
	}
	targets := []target{{"direct", endpointAddress, "", nil}, {"nginx", nginxAddress, "", nginx}, d.target()}
	paced, burst := askFrames(64, 2*time.Millisecond, len(frameText)), askFrames(64, 0, len(frameText))
	for _, m := range []measured{
		{row: "chat, 1 client", limit: 200, load: load{clients: 1, requests: 1000, body: chat(askAnswer, false)}},
		{row: "chat, 16 clients", limit: 200, load: load{clients: 16, requests: 4000, body: chat(askAnswer, false)}},
		{row: "stream of 64 frames at once, 1 client", limit: 900,
			load: load{clients: 1, requests: 300, body: chat(burst, true), stream: true}},
		{row: "stream of 64 frames at once, 16 clients", limit: 900,
			load: load{clients: 16, requests: 1000, body: chat(burst, true), stream: true}},
		{row: "stream of 64 frames 2 ms apart, 1 client",
			load: load{clients: 1, requests: 20, body: chat(paced, true), stream: true}},
		{row: "stream of 64 frames 2 ms apart, 16 clients",
			load: load{clients: 16, requests: 480, body: chat(paced, true), stream: true}},
	} {
		if err := b.interleaved(ctx, m, targets); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startNginx() (*process, error) {
	config := filepath.Join(b.dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, b.dir), 0o600); err != nil {
		return nil, err
	}
	return start(os.Stderr, nil, b.nginx, "-e", "stderr", "-p", b.dir, "-c", config)
}

// measured is a row of CPU per request, in microseconds, and of latency.
type measured struct {
	row   string
	limit float64
	load  load
}

func (b *bench) interleaved(ctx context.Context, m measured, targets []target) error {
	cpus, firsts := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range b.rounds + 1 {
		for _, t := range targets {
			cpu, s, err := t.measure(ctx, m.load)
			if err != nil {
				return err
			}
			if round == 0 {
				continue // that was to warm up
			}
			cpus[t.name], firsts[t.name] = append(cpus[t.name], cpu), append(firsts[t.name], s.first...)
		}
	}
	cpu := figures.Row{What: "CPU: " + m.row, Unit: "µs", Limit: m.limit, Values: map[string]float64{}}
	for _, t := range targets[1:] {
		cpu.Values[t.name] = micros(quantile(cpus[t.name], 0.5))
	}
	b.result.Add(cpu)
	what, p50, p99 := "time to the answer added: ", 0.0, 0.0
	if m.load.stream {
		what = "time to the first text added: "
		if m.load.clients > 1 {
			p50, p99 = 1, 10
		}
	}
	b.latency(what+m.row+", p50", p50, 0.5, firsts)
	b.latency(what+m.row+", p99", p99, 0.99, firsts)
	return nil
}

// latency adds a row of milliseconds beyond direct.
func (b *bench) latency(what string, limit, q float64, of map[string][]time.Duration) {
	floor := quantile(of["direct"], q)
	r := figures.Row{What: what, Unit: "ms", Limit: limit, Quiet: true, Values: map[string]float64{}}
	for name, ds := range of {
		if name != "direct" {
			r.Values[name] = micros(quantile(ds, q)-floor) / 1000
		}
	}
	b.result.Add(r)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// measure is the CPU time per request of the target's process.
func (t target) measure(ctx context.Context, l load) (cpu time.Duration, s sample, err error) {
	l.address, l.key = t.address, t.key
	var before, after time.Duration
	if t.process != nil {
		if before, err = t.process.cpu(); err != nil {
			return 0, s, err
		}
	}
	if s, err = l.run(ctx); err != nil {
		return 0, s, err
	}
	if t.process != nil {
		if after, err = t.process.cpu(); err != nil {
			return 0, s, err
		}
	}
	return (after - before) / time.Duration(l.requests), s, nil
}

func (d *daemon) target() target { return target{ours, d.address, d.key, d.process} }

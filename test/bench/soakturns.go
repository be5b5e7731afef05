package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"
)

// How much a codex may have grown at the end of its turns, beyond what it had after the first tenth of them.
const (
	mostGrowth  = 1.25 // times as much memory
	moreFiles   = 16
	moreThreads = 32 // the runtime of codex starts and ends threads for what blocks
)

// runSoakTurns has each codex make many turns, prints how its memory, its files, its threads and its disk go, and
// returns an error if one of them grows.
func (b *bench) runSoakTurns(ctx context.Context) (err error) {
	for _, r := range b.codexes() {
		if r.path == "" {
			continue
		}
		fmt.Fprintf(os.Stdout, "%s, %d turns:\n", r.name, b.turns)
		grown := b.withCodex(ctx, r.path, manyPlaces, []string{"text It is a fine day."}, func(codex *process, d *daemon) error {
			return soaked(ctx, codex, turns{daemon: d}, b.turns)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if grown != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.name, grown))
		}
	}
	return err
}

// soaked makes the turns in ten parts, with a line of the curve for each.
func soaked(ctx context.Context, codex *process, r turns, count int) error {
	const parts = 10
	t := tabwriter.NewWriter(os.Stdout, 10, 0, 2, ' ', 0)
	fmt.Fprintln(t, "turns\tafter\tRSS MiB\tfiles\tthreads\twritten KB\thome KB\tCPU ms a turn\t")
	began := time.Now()
	var first, last burden
	for part := range parts {
		if err := r.crowd(ctx, count/parts); err != nil {
			return err
		}
		now, err := codex.burden()
		if err != nil {
			return err
		}
		cost := float64((now.cpu - last.cpu).Microseconds()) / 1000 / float64(count/parts)
		fmt.Fprintf(t, "%d\t%s\t%.1f\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", count/parts*(part+1), time.Since(began).Round(time.Second),
			now.rss, now.files, now.threads, now.written/1000, now.kept/1000, cost)
		if err := t.Flush(); err != nil {
			return err
		}
		if last = now; part == 0 {
			first = now
		}
	}
	return last.grown(first, count/parts*(parts-1))
}

// burden is what a codex has of the machine.
type burden struct {
	disk

	cpu            time.Duration
	rss            float64 // MiB
	files, threads int
}

func (p *process) burden() (b burden, err error) {
	if b.disk, err = p.disk(); err != nil {
		return b, err
	}
	if b.cpu, err = p.spent(); err != nil {
		return b, err
	}
	if b.rss, err = p.memory("VmRSS"); err != nil {
		return b, err
	}
	if b.files, err = p.files(); err != nil {
		return b, err
	}
	threads, err := os.ReadDir(p.file("task"))
	b.threads = len(threads)
	return b, err
}

// grown is an error that names what has grown since the first part, so many turns ago.
func (b burden) grown(first burden, turns int) (err error) {
	a := b.since(first.disk, turns)
	for _, of := range []struct {
		what     string
		is, most float64
	}{
		{"MiB of memory", b.rss, mostGrowth * first.rss},
		{"open files", float64(b.files), float64(first.files + moreFiles)},
		{"threads", float64(b.threads), float64(first.threads + moreThreads)},
		{"bytes written in a turn", a.written, mostWritten},
		{"bytes kept of a turn", a.kept, mostKept},
	} {
		if of.is > of.most {
			err = errors.Join(err, errors.New(strconv.FormatFloat(of.is, 'f', 0, 64)+" "+of.what+", and at most "+
				strconv.FormatFloat(of.most, 'f', 0, 64)+" are bearable"))
		}
	}
	return err
}

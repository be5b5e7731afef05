package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// keepsThreads reports whether a codex that worker-prepare has configured has no setting that ends a thread with its
// conversation (0.140): it keeps each in memory for half an hour, 310 KB for a turn.
func keepsThreads(codex *process) (bool, error) {
	config, err := os.ReadFile(filepath.Join(filepath.Dir(codex.Path), "config.toml"))
	return !bytes.Contains(config, []byte("\nthread_unload_delay_secs = 0\n")), err
}

// mostKeeping is how many turns a codex that keeps its threads makes: they take 1.3 GiB.
const mostKeeping = 4000

// runSoakTurns has each codex make many turns, prints how its memory, its files, its threads and its disk go, and
// returns an error if one of them grows.
func (b *bench) runSoakTurns(ctx context.Context) (err error) {
	for _, r := range b.codexes() {
		if r.path == "" {
			continue
		}
		grown := b.withCodex(ctx, r.path, manyPlaces, []string{"text It is a fine day."}, func(codex *process, d *daemon) error {
			return b.soakCodex(ctx, r.name, codex, turns{daemon: d})
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

// soakCodex makes the turns of one codex.
func (b *bench) soakCodex(ctx context.Context, name string, codex *process, r turns) error {
	keeps, err := keepsThreads(codex)
	if err != nil {
		return err
	}
	count := b.turns
	if keeps {
		count = min(count, mostKeeping)
	}
	fmt.Fprintf(os.Stdout, "%s, %d turns:\n", name, count)
	first, last, err := curveOf(ctx, codex, r, count/parts)
	if err != nil {
		return err
	}
	if keeps {
		first.rss = last.rss // its memory may grow
	}
	return last.grown(first, (parts-1)*(count/parts))
}

// parts is the number of lines of a curve.
const parts = 10

// curveOf makes the turns in parts of so many, with a line of the curve for each, and returns what codex has after the
// first and after the last.
func curveOf(ctx context.Context, codex *process, r turns, each int) (first, last burden, err error) {
	t := tabwriter.NewWriter(os.Stdout, 10, 0, 2, ' ', 0)
	fmt.Fprintln(t, "turns\tafter\tRSS MiB\tfiles\tthreads\twritten KB\thome KB\tCPU ms a turn\t")
	began := time.Now()
	for part := range parts {
		if err := r.crowd(ctx, each); err != nil {
			return first, last, err
		}
		now, err := codex.burden()
		if err != nil {
			return first, last, err
		}
		cost := float64((now.cpu - last.cpu).Microseconds()) / 1000 / float64(each)
		fmt.Fprintf(t, "%d\t%s\t%.1f\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", each*(part+1), time.Since(began).Round(time.Second),
			now.rss, now.files, now.threads, now.written/1000, now.kept/1000, cost)
		if err := t.Flush(); err != nil {
			return first, last, err
		}
		if last = now; part == 0 {
			first = now
		}
	}
	return first, last, nil
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

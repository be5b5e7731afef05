// Command runnerbench measures what codex-runner costs: the package as it is shipped, installed in booted machines, each
// figure beside that of programs that do the same without it, in turn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"codex-proxy/test/bench/figures"
)

const (
	ours = "codex-runner"
	// insideName is the first argument of this program in a machine.
	insideName = "inside"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 2 && os.Args[1] == insideName {
		err = inside(ctx, os.Args[2])
	} else {
		err = outside(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	deb, unit string
	rounds    int
	result    figures.Result
}

func outside(ctx context.Context) error {
	b := &bench{result: figures.New(ours, "beside")}
	flag.StringVar(&b.deb, "deb", "", "the package to measure")
	flag.StringVar(&b.unit, "unit", "packaging/systemd/codex-session@.service", "the unit whose sandbox others get, too")
	flag.IntVar(&b.rounds, "rounds", 30, "interleaved rounds")
	only := flag.String("only", "", "measure only the parts whose names have this in them")
	last := flag.String("last", "test/runnerbench/result.json", "the result to compare with")
	json := flag.String("json", "build/bench-runner.json", "where the result goes")
	flag.Parse()
	if b.deb == "" {
		return errors.New("want -deb FILE, as `make bench-runner` gives")
	}
	for _, part := range []struct {
		name, suite string
		do          func(context.Context, *bed) error
	}{
		{"starts on systemd 257", "trixie", b.starts}, {"starts on systemd 252", "bookworm", b.starts},
		{"reuse on systemd 257", "trixie", b.reuses}, {"reuse on systemd 252", "bookworm", b.reuses},
		{"snapshots", "trixie", b.snapshots}, {"output", "trixie", b.output}, {"many sessions", "trixie", b.many},
	} {
		if !strings.Contains(part.name, *only) {
			continue
		}
		began := time.Now()
		if err := b.in(ctx, part.suite, part.do); err != nil {
			return fmt.Errorf("cannot measure %s: %w", part.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: measured in %s\n", part.name, time.Since(began).Round(time.Second))
	}
	if err := b.result.Write(*json); err != nil {
		return err
	}
	before, err := figures.Read(*last)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return b.result.Table(os.Stdout, before)
}

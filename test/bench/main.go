// Command bench measures what codex-proxy costs: the program as it is shipped,
// between a load generator and a fake app-server that speaks the real wire, in a
// network of its own, beside nginx in front of an equal endpoint and beside that
// endpoint alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ours is the program that is measured.
const ours = "codex-proxy"

// Names under which this program runs again.
const (
	insideName   = "inside"   // the bench, in its network
	fakeName     = "fake"     // the app-servers
	endpointName = "endpoint" // the equal endpoint without codex-proxy
	bareName     = "bare"     // a bare reverse proxy in the place of a broker
)

func main() {
	runtime.LockOSThread() // Pdeathsig of the children follows the thread that starts them
	if len(os.Args) < 2 {
		os.Args = append(os.Args, "")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch os.Args[1] {
	case fakeName:
		err = serveFakes(ctx, os.Args[2:])
	case endpointName:
		err = serveEndpoint(ctx)
	case bareName:
		err = serveBare(os.Args[2:])
	case insideName:
		err = inside(ctx, os.Args[2:])
	default:
		err = outside(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	program, nginx string
	released       string
	codex, oldest  string
	deb            string
	only           string
	last, json     string
	rounds         int
	long           bool
	soak           time.Duration
	turns          int
}

func parse(args []string) (o options) {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.program, "program", "build/codex-proxy", "the program to measure")
	flags.StringVar(&o.released, "released", "", "the program of the release before")
	flags.StringVar(&o.nginx, "nginx", "", "the nginx to compare with")
	flags.StringVar(&o.codex, "codex", "", "the codex whose turns are compared")
	flags.StringVar(&o.oldest, "oldest", "", "the oldest codex that the product accepts")
	flags.StringVar(&o.deb, "deb", "", "the package whose remotes are measured")
	flags.StringVar(&o.only, "only", "", "measure only the parts whose names have this in them")
	flags.StringVar(&o.last, "last", "test/bench/result.json", "the result to compare with")
	flags.StringVar(&o.json, "json", "build/bench.json", "where the result goes")
	flags.IntVar(&o.rounds, "rounds", 5, "interleaved rounds")
	flags.BoolVar(&o.long, "long", false, "a million requests in the row of growth")
	flags.DurationVar(&o.soak, "soak", 0, "only load for so long, and print the curve of memory and files")
	flags.IntVar(&o.turns, "turns", 0, "only make so many turns of the real codex, and print the curve of memory, files, "+
		"threads and disk")
	_ = flags.Parse(args) // it exits by itself
	return o
}

// outside runs this program again in a network of its own, where ports are free and
// nothing else listens, and with mounts of its own, for the journal.
func outside(args []string) error {
	if o := parse(args); o.soak == 0 && o.turns == 0 && o.nginx == "" {
		return fmt.Errorf("cannot compare without -nginx (hint: run `make bench`)")
	}
	cmd := exec.Command("/proc/self/exe", append([]string{insideName}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot measure in a network of its own: %w (it takes root)", err)
	}
	if cmd.Wait() != nil { // it has printed the reason
		os.Exit(1)
	}
	return nil
}

func inside(ctx context.Context, args []string) error {
	o := parse(args)
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("cannot set up the network: %w", err)
	}
	journal, err := listenAsJournal()
	if err != nil {
		return fmt.Errorf("cannot stand in for the journal: %w", err)
	}
	defer journal.Close()
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, dir: dir}
	switch {
	case o.soak > 0:
		return b.runSoak(ctx)
	case o.turns > 0:
		return b.runSoakTurns(ctx)
	}
	return b.run(ctx)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// Command projects is `make projects`: it runs the natural first command of public repositories in codex-runner, in a
// booted machine with the network, beside the same command without the runner in the same machine. Its table has how
// many worked at once, and what a second session costs.
//
//	projects -deb FILE.deb -uv FILE -tools DIR -node FILE [-suite bookworm] [-only click,fd] [-mirrors DIR] [-setup FILE] [-offline]
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
)

// insideName is the first argument of this program in the machine.
const insideName = "inside"

// settings are the flags.
type settings struct {
	deb, uv, tools, node string
	suite                string // of Debian, which decides on the version of systemd
	mirrors              string // a directory with OWNER/NAME, bare repositories, in place of the network
	job
}

// job is what the program does in the machine.
type job struct {
	Only    []string      // names of projects; all if there are none
	Bound   time.Duration // of each command
	Origins string        // what the addresses of repositories begin with
	SetUp   string        // the text of a .codex-runner.toml for all of them, or ""
	Offline bool          // the second session has no network
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "projects:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == insideName {
		return inside(ctx)
	}
	s := settings{job: job{Origins: "https://github.com"}}
	flag.StringVar(&s.deb, "deb", "", "the package of codex-runner")
	flag.StringVar(&s.uv, "uv", "", "the program uv")
	flag.StringVar(&s.tools, "tools", "", "a directory with npm and pnpm in node_modules")
	flag.StringVar(&s.node, "node", "", "the program node")
	flag.StringVar(&s.suite, "suite", "trixie", "the release of Debian: trixie has systemd 257, bookworm 252")
	flag.StringVar(&s.mirrors, "mirrors", "", "a directory with bare repositories OWNER/NAME, in place of the network")
	flag.DurationVar(&s.Bound, "bound", 20*time.Minute, "the longest time of a command")
	flag.BoolVar(&s.Offline, "offline", false, "the second session of each project has no network")
	setUp := flag.String("setup", "", "a set-up for all projects, in place of the default ones")
	only := flag.String("only", "", "the names of some projects, with commas between them")
	flag.Parse()
	s.Only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' || r == ' ' })
	if s.deb == "" || s.uv == "" || s.tools == "" || s.node == "" {
		return errors.New("want -deb, -uv, -tools and -node, as `make projects` gives them")
	}
	if _, err := chosen(s.Only); err != nil {
		return err
	}
	if *setUp != "" {
		text, err := os.ReadFile(*setUp)
		if err != nil {
			return err
		}
		s.SetUp = string(text)
	}
	return outside(ctx, s)
}

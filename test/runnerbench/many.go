package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// crowd is what 200 sessions at once take.
type crowd struct {
	List   []float64 // ms
	Daemon float64   // MiB
	Shims  []float64 // MiB, of each
}

const (
	stored = 10_000
	atWork = 200
)

func gather(ctx context.Context, rounds int) (crowd, error) {
	var c crowd
	if _, err := run(ctx, "systemctl", "stop", "codex-runner.socket", "codex-runner.service"); err != nil {
		return c, err
	}
	if err := fill(ctx); err != nil {
		return c, err
	}
	if _, err := run(ctx, "systemctl", "start", "codex-runner.socket", "codex-runner.service"); err != nil {
		return c, err
	}
	if err := startAll(ctx); err != nil {
		return c, err
	}
	if err := c.weighShims(); err != nil {
		return c, err
	}
	list, err := times(ctx, question{Rounds: rounds, Commands: [][]string{{"codex-runner", "sessions"}}})
	if err != nil {
		return c, err
	}
	c.List = list[0]
	daemon, err := mainPID(ctx, "codex-runner.service")
	if err != nil {
		return c, err
	}
	c.Daemon, err = memory(daemon, "status", "VmRSS")
	return c, err
}

// fill stores sessions that have ended.
func fill(ctx context.Context) error {
	file := filepath.Join(paths.StateDir, store.FileName)
	s, err := store.Open(ctx, file)
	if err != nil {
		return err
	}
	defer s.Close()
	now := time.Now()
	for n := range stored {
		id := fmt.Sprintf("aaaaaaaaaaaa%c%c%c%c", letter(n>>12), letter(n>>8), letter(n>>4), letter(n))
		err := s.Sessions.Create(ctx, store.New{
			Session:  wire.Session{ID: id, Owner: wire.Owner{Name: "root"}, Created: now, Environment: "none"},
			Commands: []wire.NewCommand{{Args: []string{"make", "test"}}},
		})
		if err == nil {
			err = s.Commands.End(ctx, id, 1, store.Ending{
				Started: now, Ended: now, Outcome: outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."},
			}, now)
		}
		if err == nil {
			err = s.Sessions.Close(ctx, id, 0, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// letter is one of an ID, for four bits.
func letter(n int) rune { return rune('a' + n&15) }

// startAll returns when all commands run.
func startAll(ctx context.Context) error {
	var ids []string
	for range atWork {
		out, err := run(ctx, "codex-runner", "run", "--detach", "--keep", "--", "sh", "-c", "echo ready; exec sleep 1000")
		if err != nil {
			return err
		}
		ids = append(ids, strings.TrimSpace(out))
	}
	for _, id := range ids {
		_, stop, err := read(ctx, id)
		if err != nil {
			return err
		}
		stop()
	}
	return nil
}

// weighShims looks at the main processes of all sessions.
func (c *crowd) weighShims() error {
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return err
	}
	for _, exe := range programs {
		if name, _ := os.Readlink(exe); name != paths.UnitProgram { // a process may have ended
			continue
		}
		private, err := memory(filepath.Base(filepath.Dir(exe)), "smaps_rollup", "Private_Clean|Private_Dirty")
		if err != nil {
			return err
		}
		c.Shims = append(c.Shims, private)
	}
	if len(c.Shims) != atWork {
		return fmt.Errorf("%d of %d sessions run", len(c.Shims), atWork)
	}
	return nil
}

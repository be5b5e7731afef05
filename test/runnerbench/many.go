package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	for range atWork {
		if _, err := run(ctx, "codex-runner", "run", "--detach", "--keep", "--", "sleep", "1000"); err != nil {
			return c, err
		}
	}
	if err := c.weighShims(); err != nil {
		return c, err
	}
	list, err := times(ctx, question{rounds, [][]string{{"codex-runner", "sessions"}}})
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
		err := s.Create(ctx, store.New{
			Session:  wire.Session{ID: id, Owner: wire.Owner{Name: "root"}, Created: now, Environment: "none"},
			Commands: []wire.NewCommand{{Args: []string{"make", "test"}}},
		})
		if err == nil {
			err = s.End(ctx, id, 1, store.Ending{
				Started: now, Ended: now, Outcome: outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."},
			}, now)
		}
		if err == nil {
			err = s.CloseSession(ctx, id, 0, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// letter is one of an ID, for four bits.
func letter(n int) rune { return rune('a' + n&15) }

// weighShims waits until all commands run, and looks at their main processes.
func (c *crowd) weighShims() error {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		programs, err := filepath.Glob("/proc/[0-9]*/exe")
		if err != nil {
			return err
		}
		commands := 0
		c.Shims = nil
		for _, exe := range programs {
			switch name, _ := os.Readlink(exe); name { // a process may have ended
			case "/usr/bin/sleep":
				commands++
			case paths.UnitProgram:
				private, err := memory(filepath.Base(filepath.Dir(exe)), "smaps_rollup", "Private_Clean|Private_Dirty")
				if err == nil {
					c.Shims = append(c.Shims, private)
				}
			}
		}
		if commands == atWork && len(c.Shims) == atWork {
			return nil
		}
	}
	return fmt.Errorf("%d of %d sessions run", len(c.Shims), atWork)
}

package systemd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/runner/paths"
	"codex-proxy/units"
)

// Active returns the active units that match one of the patterns by their names.
func (c *Client) Active(ctx context.Context, patterns ...string) (map[string]bool, error) {
	states, err := c.List(ctx, patterns...)
	if err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for _, s := range states {
		switch s.ActiveState {
		case "inactive", "failed":
			active[s.Unit] = s.JobPending
		default:
			active[s.Unit] = true
		}
	}
	return active, nil
}

// Sessions returns the units of sessions that run, or that systemd is about to start.
func (c *Client) Sessions(ctx context.Context) (map[string]bool, error) {
	active, err := c.Active(ctx, paths.SessionUnit("*"), paths.OnlineUnit("*"))
	if err != nil {
		return nil, fmt.Errorf("cannot find the sessions that run: %w", err)
	}
	return active, nil
}

// Runs reports whether the unit of a session runs; false if systemd does not answer.
func (c *Client) Runs(ctx context.Context, unit string) bool {
	active, err := c.Sessions(ctx)
	return err == nil && active[unit]
}

// listBound bounds the wait of Check for systemd: the loop of the daemon answers to the watchdog.
const listBound = 10 * time.Second

// Check is Sessions within listBound, and records whether systemd has answered, unless ctx ends before. It asks
// twice: a systemd that executes itself anew, as after an upgrade of its package, drops the calls that it has not
// answered.
func (c *Client) Check(ctx context.Context) (map[string]bool, error) {
	bounded, cancel := context.WithTimeout(ctx, listBound)
	defer cancel()
	active, err := c.Sessions(bounded)
	if errors.Is(err, units.ErrUnanswered) {
		select {
		case <-bounded.Done():
		case <-time.After(firstPause):
			active, err = c.Sessions(bounded)
		}
	}
	if ctx.Err() == nil {
		c.note(err == nil)
	}
	return active, err
}

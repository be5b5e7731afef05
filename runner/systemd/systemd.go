// Package systemd asks systemd for units with patience: while systemd or the bus is away, it asks again, and the
// service is not ready.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"codex-proxy/runner/paths"
	"codex-proxy/units"
)

// ErrUnanswered means that systemd does not answer, or refuses a call that the service needs.
var ErrUnanswered = errors.New("systemd does not answer, so no command can start (systemctl status dbus)")

const (
	// firstPause and lastPause are the pauses between two requests to a systemd that does not answer.
	firstPause, lastPause = 100 * time.Millisecond, time.Second
	// unavailableBound is how long systemd may refuse for a reason that may pass. At a restart of the bus polkit is
	// away, too, and its unit may run into its start limit.
	unavailableBound = time.Minute
)

// Units is systemd: a *units.Manager.
type Units interface {
	StartWith(ctx context.Context, unit string, properties ...units.Property) error
	Start(ctx context.Context, unit string) error
	Stop(ctx context.Context, unit string) error
	List(ctx context.Context, patterns ...string) ([]units.State, error)
}

// Client asks systemd. Its methods are safe for concurrent use.
type Client struct {
	Units // without patience

	logger  *slog.Logger
	changed func()

	mu    sync.Mutex // guards fault; nothing else is locked under it
	fault error
}

// New returns a client, which calls changed when systemd begins or ceases to answer.
func New(u Units, logger *slog.Logger, changed func()) *Client {
	return &Client{Units: u, logger: logger, changed: changed}
}

// Fault returns ErrUnanswered while systemd does not answer, or nil.
func (c *Client) Fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// note records whether systemd has answered.
func (c *Client) note(answered bool) {
	var fault error
	if !answered {
		fault = ErrUnanswered
	}
	c.mu.Lock()
	changed := (fault == nil) != (c.fault == nil)
	c.fault = fault
	c.mu.Unlock()
	if changed {
		c.changed()
	}
}

// Insist makes a request to systemd until that answers. A bus or a systemd that is away is no refusal: the request may
// have arrived. settled ends the wait, as it reports that there is nothing to ask for any more.
func (c *Client) Insist(ctx context.Context, settled func() bool, request func() error) error {
	var refused time.Time
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := request()
		if err == nil && pause > firstPause {
			c.note(true)
		}
		switch {
		case err == nil || ctx.Err() != nil || settled():
			return err
		case errors.Is(err, units.ErrUnanswered):
			refused = time.Time{}
		case !errors.Is(err, units.ErrUnavailable):
			return err
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) > unavailableBound:
			return err
		}
		c.note(false)
		c.logger.Debug("systemd does not answer, asking again", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// never is a settled of Insist.
func never() bool { return false }

// InsistOnStop stops a unit, as soon as systemd answers.
func (c *Client) InsistOnStop(ctx context.Context, unit string) error {
	return c.Insist(ctx, never, func() error { return c.Stop(ctx, unit) })
}

// RunJob starts a unit of Type=oneshot, unless it is active, and waits for its end.
func (c *Client) RunJob(ctx context.Context, unit string) error {
	for {
		err := c.Insist(ctx, never, func() error { return c.Start(ctx, unit) })
		if err == nil || ctx.Err() != nil {
			return err
		}
		active, listErr := c.Active(ctx, unit)
		if listErr == nil && !active[unit] {
			return err
		}
		select { // it goes on
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// Sweep runs the unit that removes something which only root can remove.
func (c *Client) Sweep(ctx context.Context, what, name string) error {
	if err := c.RunJob(ctx, paths.SweepUnit(what, name)); err != nil {
		return fmt.Errorf("cannot remove the %s %s: %w", what, name, err)
	}
	return nil
}

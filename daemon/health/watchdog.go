package health

import (
	"context"
	"errors"
	"sync"
	"time"

	"codex-proxy/notify"
)

// passEvery is the interval, and the bound, of a pass where no service manager has a
// watchdog: /livez publishes the outcome.
const passEvery = 10 * time.Second

// Watch makes pass after pass until ctx ends, and pings the service manager after each
// that succeeds.
func (h *Health) Watch(ctx context.Context, n *notify.Notifier) error {
	if interval := n.WatchdogInterval(); interval > 0 {
		return n.RunWatchdog(ctx, interval, h.passed)
	}
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			h.pass(ctx)
		}
	}
}

func (h *Health) pass(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, passEvery)
	defer cancel()
	before := h.stuck.Load()
	if err := h.alive(bounded); err != nil && before == nil && ctx.Err() == nil {
		h.settings.Logger.Error("the service is stuck; restart it", "error", err)
	}
}

// passed is alive, and records the time of a pass that succeeds.
func (h *Health) passed(ctx context.Context) error {
	err := h.alive(ctx)
	if err == nil {
		h.metrics.pass()
	}
	return err
}

// alive is the proof of life behind WATCHDOG=1 and /livez: every loop has made a pass. All
// loops run at once and each has the whole time, so that the error names the stuck loops
// and no others.
func (h *Health) alive(ctx context.Context) error {
	errs := make([]error, len(h.loops))
	var g sync.WaitGroup
	for i, loop := range h.loops {
		g.Go(func() { errs[i] = loop(ctx) })
	}
	g.Wait()
	err := errors.Join(errs...)
	h.found(err)
	// A worker that cannot be reached is worth a restart. It does not make this process
	// stuck: the other workers still serve.
	return errors.Join(err, h.settings.Pool.Reachable())
}

// found publishes the outcome of a pass in the report, until a later pass.
func (h *Health) found(err error) {
	var stuck *string
	if err != nil {
		stuck = new(err.Error())
	}
	if before := h.stuck.Swap(stuck); before != nil || stuck != nil {
		h.settings.Changed()
	}
}

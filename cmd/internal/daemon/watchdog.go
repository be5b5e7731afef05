package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"codex-proxy/probes"
)

// passEvery is how often, and for how long at most, the loops are asked where no
// service manager wants to hear of it: /livez tells those who do.
const passEvery = 10 * time.Second

// watch asks all loops again and again until ctx ends, and pings the service
// manager while they answer.
func (d *Daemon) watch(ctx context.Context) error {
	if interval := d.notifier.WatchdogInterval(); interval > 0 {
		return d.notifier.RunWatchdog(ctx, interval, d.beating)
	}
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.pass(ctx)
		}
	}
}

func (d *Daemon) pass(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, passEvery)
	defer cancel()
	before := d.stuck.Load()
	if err := d.alive(bounded); err != nil && before == nil && ctx.Err() == nil {
		d.logger.Error("the service is stuck; restart it", "error", err)
	}
}

// alive is the proof of life behind WATCHDOG=1 and /livez: every loop of ours
// has made a pass. All are asked at once and each has the whole time, so that
// the error names the loops that are stuck and no others.
func (d *Daemon) alive(ctx context.Context) error {
	loops := []func(context.Context) error{d.watcher.Alive, d.pool.Alive, d.server.Alive}
	errs := make([]error, len(loops))
	var g sync.WaitGroup
	for i, loop := range loops {
		g.Go(func() { errs[i] = loop(ctx) })
	}
	g.Wait()
	err := errors.Join(errs...)
	d.found(err)
	// A worker that we cannot reach is worth a restart. It does not make us stuck:
	// the others still serve.
	return errors.Join(err, d.pool.Reachable())
}

// found publishes the outcome of a pass with everything else.
func (d *Daemon) found(err error) {
	var stuck *string
	if err != nil {
		text := err.Error()
		stuck = &text
	}
	if before := d.stuck.Swap(stuck); before != nil || stuck != nil {
		d.onChange()
	}
}

// snapshot is the state of the workers, and of ourselves.
func (d *Daemon) snapshot() probes.Snapshot {
	snap := d.pool.Snapshot()
	if stuck := d.stuck.Load(); stuck != nil {
		snap.Stuck = *stuck
	}
	return snap
}

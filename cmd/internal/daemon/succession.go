package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/probes"
)

// startPatience is how long the first requests wait for the first worker.
const startPatience = time.Second

// sockets are those of the predecessor or of systemd, or one of our own where
// there is neither, and the one on which reloads are asked for.
func sockets(cfg *config.Config, predecessor *handoff.Predecessor, logger *slog.Logger) (notify.Sockets, error) {
	all := predecessor.Sockets()
	if all == nil {
		var err error
		if all, err = notify.Inherited(); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		l, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("cannot listen: %w", err)
		}
		all = notify.Sockets{paths.HTTPSocketName: {l}}
	}
	if ls := all[paths.ControlSocketName]; len(ls) == 0 || predecessor != nil && moved(ls, cfg.ControlSocket) {
		fresh, err := openControl(cfg.ControlSocket, logger)
		if err != nil {
			return nil, err
		}
		all[paths.ControlSocketName] = fresh
	}
	return all, addReloadSocket(all)
}

// serve accepts on l as soon as this process is the one to do so. Otherwise,
// who comes just after a start waits for the first handshake for a moment: it
// most often takes milliseconds, and saves a 503.
func (d *Daemon) serve(ctx context.Context, l net.Listener) error {
	var patience <-chan time.Time
	if d.handoff.predecessor == nil {
		timer := time.NewTimer(startPatience)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case <-d.handoff.started:
	case <-patience:
	case <-ctx.Done():
		return nil
	}
	return d.server.Serve(l)
}

// takeOver replaces the predecessor; after it, this is the unit's main process.
func (d *Daemon) takeOver(r probes.Report) error {
	if d.handoff.predecessor == nil {
		return nil
	}
	var m memory
	if err := d.handoff.predecessor.Ready(r.Health.Readiness.Ready, statusLine(r), &m); err != nil {
		return err
	}
	err := d.recall(m)
	d.logKeyless()
	return err
}

// awaitPredecessor watches the predecessor finish its work.
func (d *Daemon) awaitPredecessor(ctx context.Context) error {
	h := d.handoff
	if h.predecessor != nil {
		select {
		case <-h.started:
		case <-ctx.Done():
			return nil
		}
		d.logger.Info("took over; the process before finishes its turns")
		d.dropTextfile()
		if h.predecessor.Wait(ctx, d.heardTurns) != nil {
			return nil
		}
		d.heardBefore(inflight{})
		d.dropTextfile() // it may have written once more while it was replaced
	}
	close(h.inherited)
	d.onChange() // who waits for the turns of a predecessor
	return nil
}

// retire is the rest of a process that has been replaced: it leaves its clients
// to the successor and finishes what they have begun.
func (d *Daemon) retire(ctx, grace context.Context, hasten func()) {
	var orders sync.WaitGroup
	defer orders.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hurry := make(chan struct{})
	stopping := sync.OnceFunc(func() { close(hurry) })
	orders.Go(func() {
		d.handoff.successor.Follow(ctx, func(m handoff.Message) bool {
			switch m.Kind {
			case handoff.Drain:
				d.pool.Drain()
				d.handoff.pass(handoff.Drain)
				stopping()
			case handoff.Hasten:
				hasten()
			default:
				return d.heardNews(m)
			}
			return true
		})
		d.neighbours.ask(false) // nobody answers
		d.heardAfter(inflight{})
	})
	d.finishing.Store(true) // every end is sent to the successor
	d.touchTurns()
	grace, cancelGrace := context.WithTimeout(grace, d.cfg.DrainTimeout)
	defer cancelGrace()
	err := d.server.Connections.AwaitQuiet(grace, hurry)
	if err == nil && !d.awaitIdle(grace) {
		err = context.Cause(grace)
	}
	if err != nil {
		d.logger.Warn("turns in flight are cut off", "inflight", d.pool.Inflight(), "drain_timeout", d.cfg.DrainTimeout)
		d.server.Abort()
		d.handoff.pass(handoff.Hasten)
	}
	d.close(ctx)
}

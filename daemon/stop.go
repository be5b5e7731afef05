package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"codex-proxy/daemon/health"
	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/reload"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/api"
	"codex-proxy/remotes/links"
	"codex-proxy/workers"
)

// shutdownTimeout bounds the work after the last turn: open probes, error frames, idle
// connections.
const shutdownTimeout = 2 * time.Second

// ending is the end of this process, by a stop of the service or after a successor has
// taken over.
type ending struct {
	drainTimeout time.Duration
	notifier     *notify.Notifier
	pool         *workers.Pool
	server       *api.API
	operators    *operators.Operators
	health       *health.Health
	changes      *changes
	counter      *inflight.Counter
	links        *links.Links
	recent       *recent.Recent
	predecessor  *reload.Predecessor
	successor    *reload.Successor
	restarting   func(context.Context) bool // systemd is about to start the service again
	logger       *slog.Logger
}

// drain refuses new work, lets turns in flight finish and answers the requests that have
// come, within the grace. It ends all others with an error for the client, and closes the
// server. When systemd is about to start the service again, new work is not refused: it
// waits in the socket for the next process.
func (e *ending) drain(ctx, grace context.Context) {
	grace, cancel := context.WithTimeout(grace, e.drainTimeout)
	defer cancel()
	e.pool.AnnounceDrain()
	e.health.Report() // readiness changes before anything else happens
	restarting := e.restarting(grace)
	if !restarting {
		e.pool.Drain()
		e.server.Connections.Refuse()
	}
	e.notifier.Stopping("Stopping: finishing turns in flight") // after it, clients are refused, or wait
	e.predecessor.Order(handoff.Drain)
	if restarting {
		e.server.Connections.Leave(grace)
	}
	idle := e.awaitIdle(grace)
	for idle && restarting && e.server.Connections.Rest(grace) {
		idle = e.awaitIdle(grace)
	}
	if !idle {
		e.cutOff()
	}
	e.close(ctx)
}

// retire ends a process that has a successor: it leaves its clients to the successor and
// finishes the requests that they have begun.
func (e *ending) retire(ctx, grace context.Context, hasten func()) {
	var orders sync.WaitGroup
	defer orders.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopping := make(chan struct{})
	orders.Go(func() { e.follow(ctx, sync.OnceFunc(func() { close(stopping) }), hasten) })
	e.changes.awaitingTurns.Store(true) // the successor gets the end of every turn
	e.changes.loads()
	if err := e.recent.Leave(e.successor.Pass); err != nil {
		e.logger.Warn("the requests and numbers of this process end with it", "error", err)
	}
	e.leaveLinks(ctx)
	grace, cancelGrace := context.WithTimeout(grace, e.drainTimeout)
	defer cancelGrace()
	if e.server.Connections.AwaitQuiet(grace, stopping) != nil || !e.awaitIdle(grace) {
		e.cutOff()
	}
	e.close(ctx)
}

// follow carries out the orders of the successor until it has ended or ctx has.
func (e *ending) follow(ctx context.Context, stopping, hasten func()) {
	e.successor.Follow(ctx, reload.Orders{
		Load: e.counter.SetAfter,
		Drain: func() {
			e.pool.Drain()
			e.predecessor.Order(handoff.Drain)
			stopping()
		},
		Hasten: hasten, Drains: e.operators.Drains.Follow, Keys: e.operators.Keys.Follow, Report: e.changes.reportChanged,
		Ended: func() {
			e.counter.SetClaiming(false) // no process confirms a claim
			e.counter.SetAfter(inflight.Load{})
		},
	})
}

func (e *ending) cutOff() {
	e.logger.Warn("turns in flight are cut off", "inflight", e.pool.Inflight(), "drain_timeout", e.drainTimeout)
	e.server.Abort()
	e.predecessor.Order(handoff.Hasten)
}

// leaveLinks passes the connections to remotes on to the successor, which has them in a moment. They may go on for
// days; a connection that is not passed on ends with this process, and its client reconnects.
func (e *ending) leaveLinks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := e.links.Leave(ctx, e.successor.PassLink); err != nil {
		e.logger.Warn("not all connections to remotes are passed on yet", "error", err)
	}
}

// close ends all that has no reason to go on. The connections to remotes are the last: a client that connects again at
// once finds the next process.
func (e *ending) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	e.server.Connections.StopAccepting()
	if err := e.links.Close(ctx, "the service restarts"); err != nil {
		e.logger.Warn("connections were closed by force", "error", err)
	}
	if err := e.server.Shutdown(ctx); err != nil {
		e.logger.Warn("connections were closed by force", "error", err)
	}
	e.operators.Shutdown(ctx) // last: stops of workers wait on it
	if predecessor := e.predecessor.Running(); predecessor != nil {
		await(ctx, predecessor)
	}
}

// awaitIdle waits within the grace for the last turn, of this process or of a predecessor,
// and for the last request, which has no turn yet while its body arrives or its images are
// fetched. It does not wait for requests that are refused: while they keep coming, there
// may always be one.
func (e *ending) awaitIdle(grace context.Context) bool {
	extend := time.NewTicker(notify.ExtendEvery)
	defer extend.Stop()
	e.changes.awaitingTurns.Store(true)
	e.notifier.StillStopping(notify.ExtendBy) // also when idle already: the rest must end, too
	for last := ""; ; {
		inflight, requests, predecessor := e.pool.Inflight(), e.server.Connections.Unanswered(), e.predecessor.Running()
		if inflight == 0 && requests == 0 && predecessor == nil {
			return true
		}
		if status := stoppingLine(inflight, requests, predecessor != nil); status != last {
			e.notifier.Status(status)
			last = status
		}
		select {
		case <-grace.Done():
			return false
		case <-e.changes.report:
		case <-e.server.Connections.Changed():
		case <-predecessor:
		case <-extend.C:
			e.notifier.StillStopping(notify.ExtendBy)
		}
	}
}

func stoppingLine(inflight, requests int, predecessor bool) string {
	line := fmt.Sprintf("Stopping: %d turns in flight", inflight)
	if inflight == 0 && requests > 0 {
		line = fmt.Sprintf("Stopping: %d requests to answer", requests)
	}
	if predecessor {
		line += ", and those from before the last reload"
	}
	return line
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"codex-proxy/notify/handoff"
)

// handoffMargin is what a new process gets beyond start_timeout, after which it
// offers to serve in any case.
const handoffMargin = 5 * time.Second

// succession is the daemon's place in a row of processes that follow each other.
type succession struct {
	program     []string // what the next one runs
	predecessor *handoff.Predecessor
	wrote       string        // the predecessor's textfile; set before started is closed
	mute        bool          // the predecessor sends its turns only in answer to news; likewise
	inherited   chan struct{} // closed when no predecessor is left
	started     chan struct{} // closed when we serve, and READY=1 is said
	requests    chan chan<- error
	replaced    chan struct{} // closed when successor serves
	settled     chan struct{} // closed when no hand-off can begin any more
	successor   *handoff.Successor
	began       time.Time // the last reload; awaitReload's

	news    uint64        // that the predecessor was told; passNews's
	answers chan struct{} // holds a token when it has told of its turns

	mu      sync.Mutex
	failure string // of the last reload
	before  turnsBefore
}

func newSuccession(predecessor *handoff.Predecessor) (*succession, error) {
	program, err := handoff.Program()
	return &succession{
		program: program, predecessor: predecessor, inherited: make(chan struct{}), started: make(chan struct{}),
		requests: make(chan chan<- error), replaced: make(chan struct{}), settled: make(chan struct{}),
		answers: make(chan struct{}, 1),
	}, err
}

// last is closed when no predecessor is left; nil when that is past, or when we
// have not taken over from one.
func (h *succession) last() <-chan struct{} {
	if !closed(h.started) || closed(h.inherited) {
		return nil
	}
	return h.inherited
}

// pass sends a predecessor an order of the service manager.
func (h *succession) pass(order handoff.Kind) {
	if h.last() != nil {
		h.predecessor.Send(order, nil)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (h *succession) lastFailure() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

func (h *succession) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = ""
	if err != nil {
		h.failure = fmt.Sprintf(" (the last reload failed: %v)", err)
	}
}

// awaitReload hands over when that is asked for; a failure changes nothing.
func (d *Daemon) awaitReload(ctx context.Context) error {
	select {
	case <-d.handoff.started:
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case verdict := <-d.handoff.requests:
			taken, err := d.handOver(ctx)
			if taken { // who asked for it, and connects then, meets the new process
				d.server.Connections.StopAccepting()
			}
			verdict <- err
			if taken {
				close(d.handoff.replaced)
				return d.leaveControl(ctx)
			}
		}
	}
}

// handOver starts the installed program with its present configuration, and
// makes it the unit's main process once it can serve.
func (d *Daemon) handOver(ctx context.Context) (taken bool, err error) {
	d.notifier.Reloading("Reloading: starting " + d.handoff.program[0])
	d.handoff.began = time.Now()
	if taken, err = d.succeed(ctx); err == nil {
		d.logger.Info("handed over to a new process", "pid", d.handoff.successor.PID, "took_ms", time.Since(d.handoff.began).Milliseconds())
		return taken, nil
	}
	d.logger.Error("reload failed", "error", err, "took_ms", time.Since(d.handoff.began).Milliseconds(), "serving", !taken)
	d.handoff.note(err)
	d.metrics.handoffs.failed.Add(1)
	d.notifier.Ready(statusLine(d.report()) + d.handoff.lastFailure())
	return taken, err
}

// ErrAlone is about a process that nobody follows to its successor: the first one
// of a container takes the successor with it when it ends.
var ErrAlone = errors.New("no service manager would learn of the new process; restart the service")

func (d *Daemon) succeed(ctx context.Context) (taken bool, err error) {
	if d.notifier == nil || os.Getpid() == 1 {
		return false, ErrAlone
	}
	limit := d.cfg.StartTimeout + handoffMargin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the new process was not ready within %s", limit))
	defer cancel()
	s, err := handoff.Succeed(handoff.Settings{
		Program: d.handoff.program, Notifier: d.notifier, Sockets: d.sockets, State: d.keyTable.memoryNow(), Logger: d.logger,
	})
	if err != nil {
		return false, err
	}
	serving, status, err := s.Await(ctx)
	if err == nil && !serving && d.report().Health.Readiness.Ready {
		err = fmt.Errorf("the new process would not be ready, as this one is: %s", status)
	}
	if err != nil {
		s.Kill()
		return false, err
	}
	d.handoff.successor = s
	d.keyTable.mu.Lock()
	defer d.keyTable.mu.Unlock()
	d.neighbours.ask(true) // from here on the successor has to know
	d.keyTable.moved, err = s.Take(d.remembered())
	d.neighbours.ask(d.keyTable.moved)
	return d.keyTable.moved, err
}

func (d *Daemon) replaced() bool { return closed(d.handoff.replaced) }

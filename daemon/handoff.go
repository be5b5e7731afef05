package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"codex-proxy/daemon/health"
	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/reload"
	"codex-proxy/notify"
	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/api"
)

// handoffMargin is the time that a new process gets beyond start_timeout, after which it
// offers to serve in any case.
const handoffMargin = 5 * time.Second

// ErrAlone is the failure of a reload in a process with a successor that nothing would follow. The
// first process of a container takes the successor with it when it ends.
var ErrAlone = errors.New("no service manager would learn of the new process; restart the service")

// reloader hands over to new processes of the installed program.
type reloader struct {
	program      []string // the command line of the next process
	startTimeout time.Duration
	notifier     *notify.Notifier
	sockets      notify.Sockets
	health       *health.Health
	metrics      *reload.Metrics
	changeLock   *reload.ChangeLock
	counter      *inflight.Counter
	state        *daemonState
	server       *api.API
	operators    *operators.Operators
	successor    *reload.Successor
	logger       *slog.Logger

	requests chan chan<- error
	settled  chan struct{} // closed when no hand-off can begin any more

	mu      sync.Mutex // guards failure
	failure string     // of the last reload
}

// request asks for a reload, unless one is under way.
func (r *reloader) request() {
	select {
	case r.requests <- make(chan error, 1):
	default:
	}
}

// lastFailure is the end of the status after a reload that failed.
func (r *reloader) lastFailure() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// run hands over for each request, until ctx ends or a successor serves. A failure changes
// nothing.
func (r *reloader) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case verdict := <-r.requests:
			process, err := r.handOff(ctx)
			if process != nil { // a connection that the client makes after the verdict is the new process's
				r.server.Connections.StopAccepting()
			}
			verdict <- err
			if process != nil {
				r.successor.Took(process)
				r.operators.Leave(ctx)
				return nil
			}
		}
	}
}

// handOff starts the installed program with the present configuration, and makes it the
// unit's main process once it can serve. It returns nil while this one still is.
func (r *reloader) handOff(ctx context.Context) (process *handoff.Successor, err error) {
	r.notifier.Reloading("Reloading: starting " + r.program[0])
	began := time.Now()
	if process, err = r.replace(ctx, began); err == nil {
		r.logger.Info("handed over to a new process", "pid", process.PID, "took_ms", time.Since(began).Milliseconds())
		return process, nil
	}
	r.logger.Error("reload failed",
		"error", err, "took_ms", time.Since(began).Milliseconds(), "serving", process == nil)
	r.mu.Lock()
	r.failure = fmt.Sprintf(" (the last reload failed: %v)", err)
	r.mu.Unlock()
	r.metrics.Failed()
	r.notifier.Ready(health.StatusLine(r.health.Report()) + r.lastFailure())
	return process, err
}

func (r *reloader) replace(ctx context.Context, began time.Time) (*handoff.Successor, error) {
	process, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	taken, err := r.changeLock.HandOff(func() (bool, error) {
		r.counter.SetClaiming(true) // from here on the successor has to count, too
		taken, err := process.Take(r.state.save(began))
		r.counter.SetClaiming(taken)
		return taken, err
	})
	if !taken {
		return nil, err
	}
	return process, err
}

// start returns a new process that can serve.
func (r *reloader) start(ctx context.Context) (*handoff.Successor, error) {
	if r.notifier == nil || os.Getpid() == 1 {
		return nil, ErrAlone
	}
	limit := r.startTimeout + handoffMargin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the new process was not ready within %s", limit))
	defer cancel()
	process, err := handoff.Succeed(handoff.Settings{
		Program: r.program, Notifier: r.notifier, Sockets: r.sockets, State: r.operators.Keys.State(), Logger: r.logger,
	})
	if err != nil {
		return nil, err
	}
	serving, status, err := process.Await(ctx)
	if err == nil && !serving && r.health.Report().Health.Readiness.Ready {
		err = fmt.Errorf("the new process would not be ready, as this one is: %s", status)
	}
	if err != nil {
		process.Kill()
		return nil, err
	}
	return process, nil
}

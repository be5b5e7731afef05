package exec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"codex-proxy/runner/exec/stdio"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/session"
)

// run is the state of the command that the control socket, the timers and the streams share.
type run struct {
	spec     *session.Spec
	log      *logs.Writer
	stop     func()
	stopped  <-chan struct{} // closed when the command is to end
	released chan struct{}   // has a value when the hold is to end
	provided chan error      // the daemon's answer to need
	ports    ports
	terminal atomic.Pointer[stdio.PTY] // of the command; nil before its start

	mu      sync.Mutex
	phase   Phase
	changed chan struct{} // closed at the next change of phase
	need    *Need         // of Awaiting
	launch  *Launch       // of the command and of shells, once it is prepared as far as it goes
	cause   session.Cause // why; empty until then
	over    bool          // the command has ended
	by      string        // the user that cancelled it
	reason  error         // why the log failed
	pid     int           // of the command, once it runs
	disk    int64         // Result.Disk
	// snapshot is Result.Snapshot, and note is Result.Note.
	snapshot session.SnapshotFault
	note     string
	started  time.Time

	starting sync.Mutex // held while a process starts: meanwhile this process has an inheritance
}

// newRun returns the run, and a context that ends when the command is to end.
func newRun(spec *session.Spec, log *logs.Writer) (*run, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &run{
		spec: spec, log: log, stop: stop, stopped: ctx.Done(), phase: Preparing, changed: make(chan struct{}),
		released: make(chan struct{}, 1), provided: make(chan error, 1), ports: newPorts(),
	}, ctx
}

// enter begins a phase.
func (r *run) enter(phase Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enterLocked(phase)
}

func (r *run) enterLocked(phase Phase) {
	r.phase = phase
	close(r.changed)
	r.changed = make(chan struct{})
}

// begin records the start of the command.
func (r *run) begin(c *child) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pid, r.started = c.pid(), c.started
	r.enterLocked(Running)
}

// prepared has shells begin where the command does.
func (r *run) prepared(launch *Launch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.launch = launch
}

// end ends the command, unless it has ended. The first cause counts.
func (r *run) end(cause session.Cause, by string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over && r.cause == "" {
		r.cause, r.by = cause, by
		r.stop()
	}
}

// endLog is end for the log, which grows after the end of the command, too.
func (r *run) endLog(cause session.Cause, reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == "" {
		r.cause, r.reason = cause, reason
		r.stop()
	}
}

// finish has later calls of end do nothing.
func (r *run) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// slack is the time that the end of a command may take beyond its timeout and its grace.
const slack = 10 * time.Second

// alive returns an error if the command should have ended.
func (r *run) alive(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.started.Add(r.spec.Timeout + r.spec.Grace + slack)
	if r.phase == Running && time.Now().After(end) {
		return fmt.Errorf("the command should have ended by %v", end)
	}
	return nil
}

// refused is the result of a command that did not run.
func (r *run) refused(err error) *session.Result {
	stage := session.StartStage
	if at, ok := errors.AsType[*stageError](err); ok {
		stage = at.stage
	}
	r.finish()
	result := failed(stage, err)
	r.explain(result)
	return result
}

// explain adds the cause to a result.
func (r *run) explain(result *session.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result.Cause, result.CancelledBy = r.cause, r.by
	if r.reason != nil {
		result.LogError = r.reason.Error()
	}
	result.Bytes, result.Disk, result.Snapshot, result.Note = r.log.Bytes(), r.disk, r.snapshot, r.note
	result.PatchKnown = r.launch != nil && r.launch.PatchKnown
}

// follow waits for the end of the command, and ends it when it has to end. ending is called then.
func (r *run) follow(c *child, ending func(session.Cause)) *session.Result {
	copies := r.copy(c)
	timeout := time.AfterFunc(r.spec.Timeout, func() { r.end(session.TimedOut, "") })
	defer timeout.Stop()
	exited := c.wait()
	result := &session.Result{Version: session.Version, Started: c.started}
	select {
	case end := <-exited:
		end.tell(result)
	case <-r.stopped:
		ending(r.cause)
		c.terminate()
		grace := time.NewTimer(r.spec.Grace)
		defer grace.Stop()
		select {
		case end := <-exited:
			end.tell(result)
		case <-grace.C:
			c.kill()
		}
	}
	r.finish()
	// On the clock of the start: one that was stepped meanwhile would make the time of the command wrong.
	result.Ended = c.started.Add(time.Since(c.started))
	// Other processes may hold the pipes: read only the bytes that are in them now.
	c.Stop()
	copies.Wait()
	r.explain(result)
	return result
}

// copy copies both streams to the log until their ends.
func (r *run) copy(c *child) *sync.WaitGroup {
	copies := &sync.WaitGroup{}
	for stream, pipe := range c.Outputs {
		copies.Go(func() {
			switch err := r.log.Copy(stream, pipe); {
			case errors.Is(err, logs.ErrLimit):
				r.endLog(session.OutputLimit, nil)
			case err != nil:
				r.endLog(session.LogFailed, err)
			}
		})
	}
	return copies
}

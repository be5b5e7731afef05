package sessions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// writeError is an error of the own standard output or error.
type writeError struct{ err error }

func (e *writeError) Error() string {
	return "cannot write the output of the command: " + e.err.Error()
}

func (e *writeError) Unwrap() error { return e.err }

// LeftError is why a program ended before the command: a signal.
type LeftError struct {
	Signal  syscall.Signal
	Session string // that goes on, or ""
}

func (e *LeftError) Error() string {
	if e.Session == "" {
		return "stopped before the command was started"
	}
	return fmt.Sprintf("left the command before its end: codex-runner show %s has it", e.Session)
}

// attendance handles the signals of one Run in a goroutine, from attend to stop. Before a command is queued, a signal
// ends the Run. Then the first signal cancels the command and a further one ends the Run.
type attendance struct {
	run   *Run
	leave context.CancelCauseFunc
	wait  sync.WaitGroup

	mu        sync.Mutex
	session   string // "" before a command is queued
	command   int
	cancelled bool
}

// attend returns an attendance, and the context that it ends. The caller calls stop.
func attend(ctx context.Context, r *Run) (*attendance, context.Context) {
	ctx, leave := context.WithCancelCause(ctx)
	a := &attendance{run: r, leave: leave}
	a.wait.Go(func() {
		for {
			select {
			case s := <-r.Signals:
				a.signal(ctx, s)
			case <-ctx.Done():
				return
			}
		}
	})
	return a, ctx
}

func (a *attendance) stop() {
	a.leave(nil)
	a.wait.Wait()
}

// begin makes the nth command of a session the one that signals cancel.
func (a *attendance) begin(session string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session, a.command = session, n
}

func (a *attendance) signal(ctx context.Context, s os.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == "" || a.cancelled {
		number, _ := s.(syscall.Signal)
		a.leave(&LeftError{number, a.session})
		return
	}
	a.cancelled = true
	fmt.Fprintln(a.run.Stderr, "cancelling the command; again to leave it alone")
	a.wait.Go(func() { a.cancel(ctx) })
}

// cancel cancels the command. If the daemon does not answer, only its end can end the Run.
func (a *attendance) cancel(ctx context.Context) {
	err := a.run.Client.Again(ctx, func() error {
		_, err := a.run.Client.Cancel(ctx, a.session, a.command)
		return err
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(a.run.Stderr, "cannot cancel the command: %v\n", err)
	}
}

// serial is a writer for several goroutines.
type serial struct {
	mu    sync.Mutex
	w     io.Writer
	isRaw bool // the terminal begins no line at a newline
}

func (s *serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isRaw {
		return s.w.Write(p)
	}
	if _, err := s.w.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// raw is for a terminal that is raw, or not any more.
func (s *serial) raw(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isRaw = is
}

package runs

import (
	"context"
	"sync"
)

// progress is how far a command is.
type progress struct {
	mu        sync.Mutex // guards the rest; nothing else is locked under it
	cancelled string     // the user that cancels it
	started   bool       // its unit is, or was, active
	reached   bool       // its main process can be asked, or has ended
	overdue   bool       // the guard has had the unit stopped, because of the time
	ending    func()     // ends context; nil without one
}

// cancel records the first user that cancels the command, and reports whether its main process is to be asked.
func (p *progress) cancel(by string) (ask bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancelled != "" {
		return false
	}
	p.cancelled = by
	if p.ending != nil {
		p.ending()
	}
	return p.reached
}

// context ends when a user cancels the command.
func (p *progress) context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	p.ending = cancel
	if p.cancelled != "" {
		cancel()
	}
	return ctx
}

// cancelledBy is the user that has cancelled the command, or "".
func (p *progress) cancelledBy() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancelled
}

// reach records that the main process takes requests, and returns the user that has cancelled the command before.
func (p *progress) reach() (cancelledBy string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = true
	return p.cancelled
}

// start records that the unit is active.
func (p *progress) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = true
}

func (p *progress) hasStarted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// overrun records that the guard ends the command, because of its time unless a user has cancelled it.
func (p *progress) overrun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.overdue = p.cancelled == ""
}

func (p *progress) isOverdue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.overdue
}

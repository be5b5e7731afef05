package reload

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"codex-proxy/daemon/inflight"
	"codex-proxy/internal/nudge"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers/control"
)

const (
	// confirmBound is the longest that a change waits until the predecessor has it in
	// force.
	confirmBound = time.Second
	// askEvery is how often a predecessor that reports no load is asked for its turns: its
	// places are free here that late.
	askEvery = 500 * time.Millisecond
)

// Predecessor is the process before this one while it finishes its work. A process that
// systemd started has none, and then no method sends anything.
type Predecessor struct {
	process *handoff.Predecessor
	serving <-chan struct{} // closed when this process serves
	ended   chan struct{}   // closed when no predecessor is left

	passing sync.Mutex  // one change at a time; it guards passed
	passed  uint64      // changes that were sent
	reports nudge.Nudge // holds a token when turns changed

	mu    sync.Mutex // guards turns
	turns Turns
}

// NewPredecessor returns the connection to process, which may be nil. It carries changes
// once serving is closed.
func NewPredecessor(process *handoff.Predecessor, serving <-chan struct{}) *Predecessor {
	return &Predecessor{
		process: process, serving: serving, ended: make(chan struct{}), reports: nudge.New(),
	}
}

// Exists reports whether this process follows another one, ended or not.
func (p *Predecessor) Exists() bool { return p.process != nil }

// Running returns a channel that is closed when no predecessor is left. It returns nil
// after that, and while this process has not taken over.
func (p *Predecessor) Running() <-chan struct{} {
	if !isClosed(p.serving) || isClosed(p.ended) {
		return nil
	}
	return p.ended
}

// Order sends an order of the service manager.
func (p *Predecessor) Order(order handoff.Kind) {
	if p.Running() != nil {
		p.process.Send(order, nil)
	}
}

// SendLoad sends the load of this process and those after it.
func (p *Predecessor) SendLoad(l inflight.Load) {
	if p.Running() != nil {
		p.process.Send(handoff.Load, load{&l})
	}
}

// Pass sends a change, and waits until the predecessor has it in force and has reported
// its turns. A predecessor that hangs has it in force later.
func (p *Predecessor) Pass(kind handoff.Kind, body any) {
	p.passing.Lock()
	defer p.passing.Unlock()
	running := p.Running()
	if running == nil {
		return
	}
	p.passed++
	p.process.Send(kind, body)
	bound := time.After(confirmBound)
	for p.reported().Changes < p.passed {
		select {
		case <-p.reports:
		case <-running:
			return
		case <-bound:
			return
		}
	}
}

// PollTurns asks a predecessor that reports no load (codex-proxy 0.1.0) for its turns
// until it has ended or ctx has: it reports them only in answer to a change.
func (p *Predecessor) PollTurns(ctx context.Context) {
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for p.Running() != nil {
		p.ask()
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask sends a drain of no worker, which changes nothing.
func (p *Predecessor) ask() {
	p.passing.Lock()
	defer p.passing.Unlock()
	p.passed++
	p.process.Send(handoff.Drains, control.Drain{})
}

// Turns returns the turns of all predecessors on each of their workers.
func (p *Predecessor) Turns() map[string]int {
	if p.Running() == nil {
		return nil
	}
	return p.reported().Inflight
}

// Has reports whether the predecessors have reported all of these workers.
func (p *Predecessor) Has(names []string) bool {
	turns := p.Turns()
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := turns[name]
		return !ok
	})
}

func (p *Predecessor) reported() Turns {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns
}

// Follow calls report with each load of the predecessor, and adopt with each message about what it
// passes on, on its own goroutine, and returns nil when the predecessor has ended.
func (p *Predecessor) Follow(ctx context.Context, report func(inflight.Load), adopt func(handoff.Message)) error {
	return p.process.Wait(ctx, func(m handoff.Message) bool {
		if m.Kind == handoff.Link || m.Kind == handoff.Recent || m.Kind == handoff.Ended {
			adopt(m)
			return true
		}
		if m.Kind != handoff.Turns {
			return false
		}
		var turns Turns
		if json.Unmarshal(m.Body, &turns) == nil {
			p.mu.Lock()
			p.turns = turns
			p.mu.Unlock()
			p.reports.Touch()
			report(turns.load())
		}
		return true
	})
}

// End reports that no predecessor is left.
func (p *Predecessor) End() { close(p.ended) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// touch leaves a token in c. One that is there already covers this change, too.

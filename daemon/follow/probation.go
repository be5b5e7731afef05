package follow

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/nudge"
)

const (
	// probationTime is how long the faults of a codex lead back to the one before.
	probationTime = time.Hour
	// window is the number of last turns that count: it fails by inARow of the last ones, or by most of all of them.
	window, inARow, most = 10, 3, 5
	// timesBefore is how much larger the share of faults in the window is than on the copy before.
	timesBefore = 2
)

// probation counts the turns on each copy, and decides whether the one in use fails.
type probation struct {
	of   func(unit string) (name string, ok bool)
	wake nudge.Nudge // a copy has failed

	mu     sync.Mutex
	state  copies.State
	saved  Saved  // by an earlier process
	name   string // of the copy on probation; empty: none is
	until  time.Time
	counts map[string]*Count
	crash  map[string]any // by unit: the last one that was counted
	last   []turn         // on it, the newest last
	bad    string         // name, once it has failed
	reason string

	suspect   request // that alone has failed a copy
	cleared   string  // the copy of which that was no fault
	clearedOf int64   // the request
	undo      bool    // it is to be in use again
}

// turn is one that has ended. fault is that of codex itself; empty: none.
type turn struct {
	request int64 // or the remote
	fault   string
}

// again reports whether another turn is a failure of the same request.
func (t turn) again(o turn) bool { return o.fault != "" && o.request == t.request }

// request is one that has failed a copy: by codex, or because the endpoint refuses it in plain words.
type request struct {
	id   int64
	copy string
}

// Count is the turns of a copy that have ended, and those of them with a fault of codex.
type Count struct {
	Turns  int `json:"turns"`
	Faults int `json:"faults,omitempty"`
}

// countOf is the count of a copy.
func (p *probation) countOf(name string) *Count {
	c := p.counts[name]
	if c == nil {
		c = &Count{}
		p.counts[name] = c
	}
	return c
}

func newProbation(of func(unit string) (string, bool)) *probation {
	return &probation{of: of, wake: nudge.New(), counts: map[string]*Count{}, crash: map[string]any{}}
}

// begin puts the copy in use on probation, if another one was in use before.
func (p *probation) begin(state copies.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.last = state, p.resume(state)
	p.name, p.until, p.bad = state.InUse, state.Changed.Add(probationTime), ""
	if state.Before == "" {
		p.name = ""
	}
	for name := range p.counts {
		if !p.concerns(name) {
			delete(p.counts, name)
		}
	}
}

// on reports whether the copy is on probation.
func (p *probation) on(name string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return name != "" && name == p.name && now.Before(p.until)
}

// ended counts a turn; one crash is one fault, however many turns were lost in it. It returns the copy that has failed
// by it, if one has.
func (p *probation) ended(unit string, t turn, crash any, now time.Time) (bad string) {
	name, ok := p.of(unit)
	if !ok {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if crash != nil && p.crash[unit] == crash {
		return ""
	}
	if p.crash[unit] = crash; crash == nil {
		delete(p.crash, unit)
	}
	c := p.countOf(name)
	c.Turns++
	if t.fault != "" {
		c.Faults++
	}
	p.clear(name, t)
	if name != p.name || !now.Before(p.until) || p.bad != "" {
		return ""
	}
	if t.fault != "" && name == p.cleared && slices.ContainsFunc(p.last, t.again) {
		return ""
	}
	p.last = append(p.last, t)
	p.last = p.last[max(0, len(p.last)-window):]
	if t.fault == "" || !p.fails() {
		return ""
	}
	p.bad, p.suspect = name, request{t.request, name}
	if slices.ContainsFunc(p.last, func(o turn) bool { return o.fault != "" && o.request != t.request }) {
		p.suspect = request{}
	}
	p.reason = fmt.Sprintf("%d of its last %d turns failed: %s", faults(p.last), len(p.last), t.fault)
	return name
}

// notReady takes over that a remote does not become ready after its change, which fails a copy at once. It returns
// that copy.
func (p *probation) notReady(unit string, t turn, now time.Time) (bad string) {
	name, ok := p.of(unit)
	if !ok {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear(name, t)
	if name != p.name || !now.Before(p.until) || p.bad != "" || name == p.cleared && t.request == p.clearedOf {
		return ""
	}
	p.bad, p.reason, p.suspect = name, t.fault, request{t.request, name}
	return name
}

// clear has a copy used again that one request alone has failed, if that fails on another copy, too. It stays held if
// the request succeeds there.
func (p *probation) clear(name string, t turn) {
	suspect := p.suspect
	if suspect.id != t.request || suspect.id == 0 || suspect.copy == name {
		return
	}
	p.suspect = request{}
	if t.fault != "" {
		p.cleared, p.clearedOf, p.undo = suspect.copy, suspect.id, true
		p.wake.Touch()
	}
}

// again returns the copy that is to be in use again, once.
func (p *probation) again() (name string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, p.undo = p.undo, false
	return p.cleared, is
}

// fails compares the last turns with those on the copy before.
func (p *probation) fails() bool {
	n := len(p.last)
	row := n >= inARow && faults(p.last[n-inARow:]) == inARow
	if !row && faults(p.last) < most {
		return false
	}
	b := p.counts[p.state.Before]
	return b == nil || b.Turns == 0 || faults(p.last)*b.Turns > timesBefore*b.Faults*n
}

func faults(turns []turn) (n int) {
	for _, t := range turns {
		if t.fault != "" {
			n++
		}
	}
	return n
}

// verdict returns the copy that has failed, with the reason.
func (p *probation) verdict() (name, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bad, p.reason
}

// forget ends the probation: there is no way back.
func (p *probation) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad, p.name = "", ""
}

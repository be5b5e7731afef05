package follow

import (
	"time"

	"codex-proxy/codex/copies"
)

// Saved is the ground on which the next process judges the codex in use.
type Saved struct {
	Counts map[string]Count `json:"counts,omitempty"` // of the copy in use and of the one before
	// Last are the last turns on Copy since it is in use, the newest last.
	Copy    string      `json:"copy,omitempty"`
	Since   time.Time   `json:"since,omitzero"`
	Last    []SavedTurn `json:"last,omitempty"`
	Cleared string      `json:"cleared,omitempty"` // the copy that one request has failed, which was no fault of it
	// ClearedOf is that request, or the remote.
	ClearedOf int64 `json:"cleared_of,omitempty"`
}

// SavedTurn is a turn without the words of its fault.
type SavedTurn struct {
	Request int64 `json:"request"`
	Fault   bool  `json:"fault,omitempty"`
}

// earlier is the fault of a turn in an earlier process.
const earlier = "it failed before the service restarted"

// maxSaved bounds the copies that are taken over.
const maxSaved = 16

// save returns the ground of the next process's judgement.
func (p *probation) save() Saved {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Saved{Copy: p.state.InUse, Since: p.state.Changed, Cleared: p.cleared, ClearedOf: p.clearedOf}
	for name, c := range p.counts {
		if !p.concerns(name) {
			continue
		}
		if s.Counts == nil {
			s.Counts = map[string]Count{}
		}
		s.Counts[name] = *c
	}
	for _, t := range p.last {
		s.Last = append(s.Last, SavedTurn{t.request, t.fault != ""})
	}
	if p.state.InUse == "" { // no judgement has begun: what was restored goes on
		s.Copy, s.Since, s.Last = p.saved.Copy, p.saved.Since, p.saved.Last
	}
	return s
}

// concerns reports whether the judgement is about the copy. Before one has begun, it is about all.
func (p *probation) concerns(name string) bool {
	return p.state.InUse == "" || name == p.state.InUse || name == p.state.Before
}

// restore takes over what an earlier process has saved. This one may have counted turns already.
func (p *probation) restore(s Saved) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved, p.cleared, p.clearedOf = s, s.Cleared, s.ClearedOf
	for name, before := range s.Counts {
		if len(p.counts) >= maxSaved || before.Turns < before.Faults || before.Faults < 0 {
			continue
		}
		c := p.countOf(name)
		c.Turns, c.Faults = c.Turns+before.Turns, c.Faults+before.Faults
	}
}

// resume returns the last turns that an earlier process has had since the copy is in use.
func (p *probation) resume(state copies.State) (last []turn) {
	if p.saved.Copy != state.InUse || !p.saved.Since.Equal(state.Changed) {
		return nil
	}
	for _, t := range p.saved.Last[max(0, len(p.saved.Last)-window):] {
		fault := ""
		if t.Fault {
			fault = earlier
		}
		last = append(last, turn{t.Request, fault})
	}
	return last
}

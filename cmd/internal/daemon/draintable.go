package daemon

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/control"
	"codex-proxy/proxy/workers"
)

// answerBound is how long a predecessor may take to hear news.
const answerBound = time.Second

// drainTable is how drains change while the service runs. It is the
// control.DrainTable.
type drainTable struct{ daemon *Daemon }

// Drain implements control.DrainTable. The successor gets what is in force when it
// takes over; a change that comes later is its own. A worker that has gone from the
// settings is that of the processes before which still have turns on it.
func (t drainTable) Drain(change control.Drain) error {
	d := t.daemon
	d.keyTable.mu.Lock()
	defer d.keyTable.mu.Unlock()
	if d.keyTable.moved {
		return control.ErrMoved
	}
	err := change.Apply(d.pool)
	if err != nil && !errors.Is(err, workers.ErrUnknown) {
		return err
	}
	d.handoff.passNews(handoff.Drains, change)
	if d.handoff.has(change.Workers) {
		return nil
	}
	return err
}

// Before implements control.DrainTable.
func (t drainTable) Before() map[string]int { return t.daemon.handoff.turns() }

// turnsBefore is what a process that has been replaced tells of its turns and of
// those of the ones before it.
type turnsBefore struct {
	News     uint64         `json:"drains"` // that it has heard: drains, and key files
	Inflight map[string]int `json:"inflight"`
	Load     *inflight      `json:"load,omitempty"`
}

// passNews tells the predecessor of a drain or a key file, and waits until it goes by
// it and has told of its turns in flight. One caller at a time.
func (h *succession) passNews(kind handoff.Kind, body any) {
	last := h.last()
	if last == nil {
		return
	}
	h.news++
	h.predecessor.Send(kind, body)
	bound := time.After(answerBound)
	for h.told().News < h.news {
		select {
		case <-h.answers:
		case <-last:
			return
		case <-bound: // it hangs, or is of a version that does not answer
			return
		}
	}
}

func (h *succession) told() turnsBefore {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.before
}

// turns are those that predecessors have in flight on each of their workers.
func (h *succession) turns() map[string]int {
	if h.last() == nil {
		return nil
	}
	return h.told().Inflight
}

// has reports whether predecessors have told of all of these workers.
func (h *succession) has(names []string) bool {
	before := h.turns()
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := before[name]
		return !ok
	})
}

// heardTurns takes over the turns of a predecessor. It reports false for a message of
// another kind.
func (d *Daemon) heardTurns(m handoff.Message) bool {
	if m.Kind != handoff.Turns {
		return false
	}
	var before turnsBefore
	if json.Unmarshal(m.Body, &before) != nil {
		return true
	}
	h := d.handoff
	h.mu.Lock()
	h.before = before
	h.mu.Unlock()
	touch(h.answers)
	d.heardBefore(before.load())
	d.onChange()
	return true
}

// heardNews is for a process that has been replaced: a drain, a key file, or what
// the processes after it have in flight. It reports false for a message of another kind.
func (d *Daemon) heardNews(m handoff.Message) bool {
	switch m.Kind {
	case handoff.Load:
		d.heardLoad(m.Body)
		return true
	case handoff.Drains:
		var change control.Drain
		if json.Unmarshal(m.Body, &change) == nil {
			_ = change.Apply(d.pool) // our workers may be others
			d.handoff.passNews(handoff.Drains, change)
		}
	case handoff.Keys:
		d.heardKeys(m.Body)
	default:
		return false
	}
	d.newsHeard.Add(1)
	d.onChange()
	return true
}

// inflight is the turns in flight on each worker, ours and those before us.
func (d *Daemon) inflight() map[string]int {
	all := map[string]int{}
	for _, name := range d.pool.Names() {
		all[name] = 0
	}
	maps.Copy(all, d.handoff.turns()) // also on workers that are not ours
	for name, l := range d.pool.Loads() {
		all[name] += l.Turns
	}
	return all
}

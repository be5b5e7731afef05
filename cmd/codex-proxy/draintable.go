package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"codex-proxy/proxy/control"
	"codex-proxy/proxy/workers"
)

// answerBound is how long a predecessor may take to hear of a drain.
const answerBound = time.Second

// drainTable is how drains change while the service runs. It is the
// control.DrainTable.
type drainTable struct{ daemon *daemon }

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
	d.handoff.passDrain(change)
	if d.handoff.has(change.Workers) {
		return nil
	}
	return err
}

// Before implements control.DrainTable.
func (t drainTable) Before() map[string]int { return t.daemon.handoff.turns() }

// turnsBefore is what a process that has been replaced tells of its turns and of
// those of the ones before it, from the first drain on.
type turnsBefore struct {
	Drains   uint64         `json:"drains"` // that it has heard of
	Inflight map[string]int `json:"inflight"`
}

// passDrain tells the predecessor of a drain, and waits until it takes no new turns
// and has told of those in flight. One caller at a time.
func (h *handoff) passDrain(change control.Drain) {
	last := h.last()
	if last == nil {
		return
	}
	h.drains++
	h.predecessor.Tell(change)
	bound := time.After(answerBound)
	for h.told().Drains < h.drains {
		select {
		case <-h.answers:
		case <-last:
			return
		case <-bound: // it hangs, or is of a version that does not answer
			return
		}
	}
}

func (h *handoff) told() turnsBefore {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.before
}

// turns are those that predecessors have in flight on each of their workers.
func (h *handoff) turns() map[string]int {
	if h.last() == nil {
		return nil
	}
	return h.told().Inflight
}

// has reports whether predecessors have told of all of these workers.
func (h *handoff) has(names []string) bool {
	before := h.turns()
	return !slices.ContainsFunc(names, func(name string) bool {
		_, ok := before[name]
		return !ok
	})
}

// heardTurns is what a predecessor tells.
func (d *daemon) heardTurns(raw json.RawMessage) {
	var before turnsBefore
	if json.Unmarshal(raw, &before) != nil {
		return
	}
	h := d.handoff
	h.mu.Lock()
	h.before = before
	h.mu.Unlock()
	select {
	case h.answers <- struct{}{}:
	default:
	}
	d.onChange()
}

// heardNews is for a process that has been replaced: a drain, or a key file.
func (d *daemon) heardNews(raw json.RawMessage) {
	var change control.Drain
	if json.Unmarshal(raw, &change) != nil {
		d.heardKeys(raw)
		return
	}
	_ = change.Apply(d.pool) // our workers may be others
	d.handoff.passDrain(change)
	d.drainsHeard.Add(1)
	d.onChange()
}

// tellTurns answers the successor's drains, and goes on with every change.
func (d *daemon) tellTurns(ctx context.Context) {
	for {
		select {
		case <-d.turns:
		case <-ctx.Done():
			return
		}
		if n := d.drainsHeard.Load(); n > 0 {
			d.handoff.successor.Tell(turnsBefore{Drains: n, Inflight: d.inflight()})
		}
	}
}

// inflight is the turns in flight on each worker, ours and those before us.
func (d *daemon) inflight() map[string]int {
	all := map[string]int{}
	maps.Copy(all, d.handoff.turns()) // also on workers that are not ours
	for _, w := range d.pool.Snapshot().Workers {
		all[w.Name] += w.Inflight
	}
	return all
}

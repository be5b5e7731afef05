package reload

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/daemon/inflight"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers"
	"codex-proxy/workers/control"
)

// sent delivers these messages.
func sent(messages ...handoff.Message) func(func(handoff.Message) bool) {
	return func(handle func(handoff.Message) bool) {
		for _, m := range messages {
			handle(m)
		}
	}
}

// A drain needs the lock of the queue, under which a claim waits for its confirmation. The
// confirmation comes after the drain, and neither waits.
func TestDrainDuringAClaim(t *testing.T) {
	s := NewSuccessor()
	var queue sync.Mutex
	var log bytes.Buffer
	claiming := make(chan struct{})
	counter := inflight.New(inflight.Settings{
		Own: func() inflight.Load { return inflight.Load{} }, Elsewhere: func(inflight.Load) {},
		Changed: sync.OnceFunc(func() { close(claiming) }), Freed: func() {}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	counter.SetClaiming(true)
	claimed := make(chan struct{})
	go func() {
		defer close(claimed)
		queue.Lock()
		defer queue.Unlock()
		counter.Claim()
	}()
	<-claiming
	drained := false
	s.carryOut(sent(
		handoff.Message{Kind: handoff.Drain},
		handoff.Message{Kind: handoff.Load, Body: json.RawMessage(`{"load":{"heard":1}}`)},
	), Orders{
		Drain: func() {
			queue.Lock()
			defer queue.Unlock()
			drained = true
		},
		Load:  counter.SetAfter,
		Ended: func() {},
	})
	assert.True(t, drained)
	<-claimed
	assert.Empty(t, log.String(), "the claim waits for the drain, and the drain for the claim, to the bound of the claim")
}

// Orders other than loads are carried out in their order, and changes are counted.
func TestOrdersInOrder(t *testing.T) {
	s := NewSuccessor()
	var done []string
	do := func(what string) func() { return func() { done = append(done, what) } }
	unknown := true
	s.carryOut(func(handle func(handoff.Message) bool) {
		for _, m := range []handoff.Message{
			{Kind: handoff.Drains, Body: json.RawMessage(`{"workers":["a"]}`)},
			{Kind: handoff.Keys, Body: json.RawMessage(`"text"`)}, {Kind: handoff.Drain}, {Kind: handoff.Hasten},
		} {
			assert.True(t, handle(m), m.Kind)
		}
		unknown = !handle(handoff.Message{Kind: "a later one"})
	}, Orders{
		Drain: do("drain"), Hasten: do("hasten"), Report: do("report"), Ended: func() {},
		Drains: func(c control.Drain) { do("drains " + c.Workers[0])() },
		Keys:   func(raw json.RawMessage) { do("keys " + string(raw))() },
	})
	assert.True(t, unknown)
	assert.Equal(t, []string{"drains a", "report", `keys "text"`, "report", "drain", "hasten"}, done)
	assert.EqualValues(t, 2, s.changes.Load())
}

// codex-proxy 0.1.0 reports its turns without a load.
func TestTurnsWithoutALoad(t *testing.T) {
	var turns Turns
	assert.NoError(t, json.Unmarshal([]byte(`{"drains":1,"inflight":{"default":2}}`), &turns))
	assert.Equal(t, inflight.Load{Workers: map[string]workers.Load{"default": {Turns: 2}}}, turns.load())
}

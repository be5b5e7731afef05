package messages_test

import (
	"bufio"
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// A stop sequence ends the message and the turn, and is named. It stands in no other block.
func TestStopOfAMessage(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) {
				turn.Text("I think.\nObs")
				turn.EndResponse(apitest.SomeUsage)
				apitest.Deltas(turn, apitest.Observed)
			})})
		resp := r.Messaging(t, apitest.Greet(form+`"stop_sequences":["never","\nObservation:"],`), "X-Request-Id", "stopped")
		m := readMessage(t, resp)
		assert.Equal(t, []string{"I think.\nObs", "I look."}, m.texts())
		assert.Equal(t, "stop_sequence", *m.StopReason)
		require.NotNil(t, m.StopSequence)
		assert.Equal(t, "\nObservation:", *m.StopSequence)
		apitest.Received(t, interrupted)
		assert.Equal(t, "ok", r.Log.Request(t, "stopped")["outcome"])
		assert.Zero(t, r.Pool.Inflight())
	})
}

func TestStopOfAMessageHoldsBackNoMore(t *testing.T) {
	gate := make(chan struct{})
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "abc EN", "TRY")})
	resp := r.Messaging(t, apitest.Greet(apitest.Streaming+`"stop_sequences":["END"],`))
	body := bufio.NewReader(resp.Body)
	for range 3 {
		nextEvent(t, body)
	}
	assert.Contains(t, nextEvent(t, body).data, `"text":"abc "`)
	close(gate)
	assert.Contains(t, nextEvent(t, body).data, `"text":"ENTRY"`)
	assert.Len(t, sentEvents(t, apitest.Unread(resp, body)), 3)
}

// Thinking and the input of tools hold no stop sequence, what was held back comes before the
// next block, and a call that comes before a sequence is delivered.
func TestStopOfAMessageIsForText(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(ctx context.Context, turn *appservertest.Turn) {
				turn.Reasoning("think END more")
				turn.Text("the EN")
				turn.Call(ctx, "clock", `{"a":"END"}`)
				turn.Text("text END more")
			})})
		m := readMessage(t, r.Messaging(t, apitest.Greet(form+messageTools+wantsThinking+`"stop_sequences":["END"],`)))
		require.Len(t, m.Content, 4)
		assert.Equal(t, "think END more", m.Content[0].Thinking)
		assert.Equal(t, []string{"the EN", "text "}, m.texts())
		assert.JSONEq(t, `{"a":"END"}`, string(m.Content[2].Input))
		assert.Equal(t, "tool_use", *m.StopReason, "the call waits for its result")
		assert.Nil(t, m.StopSequence)
		apitest.Received(t, interrupted)
	})
}

// A message that begins with a stop sequence is empty, and no refusal.
func TestStopAtTheBeginningOfAMessage(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		interrupted := make(chan string, 1)
		r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Stopping(interrupted,
			func(_ context.Context, turn *appservertest.Turn) { turn.Text("END", "less") })})
		m := readMessage(t, r.Messaging(t, apitest.Greet(form+`"stop_sequences":["END"],`)))
		assert.Empty(t, m.Content)
		assert.Equal(t, "stop_sequence", *m.StopReason)
		apitest.Received(t, interrupted)
	})
}

// Text that an attempt held back when it was lost is void.
func TestStopOfALostMessage(t *testing.T) {
	apitest.BothForms(t, func(t *testing.T, form string) {
		var once sync.Once
		r := apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
			lost := false
			once.Do(func() { lost = true })
			if lost {
				turn.Text("EN")
				return apitest.Disconnect(ctx, turn)
			}
			turn.Text("Done")
			return nil
		}})
		m := readMessage(t, r.Messaging(t, apitest.Greet(form+`"stop_sequences":["END"],`)))
		assert.Equal(t, []string{"Done"}, m.texts())
	})
}

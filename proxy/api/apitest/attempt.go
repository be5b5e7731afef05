package apitest

import (
	"context"
	"sync/atomic"
	"testing"

	"codex-proxy/codex/appservertest"
)

// Once lets a turn die in its own way the first time, and answers afterwards.
func Once(die appservertest.Handler) (appservertest.Handler, *atomic.Int64) {
	var turns atomic.Int64
	return func(ctx context.Context, turn *appservertest.Turn) error {
		if turns.Add(1) == 1 {
			return die(ctx, turn)
		}
		turn.Text("Hello")
		turn.EndResponse(SomeUsage)
		return nil
	}, &turns
}

// Disconnect is a worker that dies in the turn.
func Disconnect(_ context.Context, turn *appservertest.Turn) error {
	turn.Peer().Disconnect()
	return nil
}

// Retries is the counter of that reason.
func (r *Rig) Retries(t testing.TB, reason string) string {
	t.Helper()
	return Metric(t, r, `codex_turn_retries_total{reason="`+reason+`"}`)
}

// LostInSilence loses its first turns without output, each after its client received
// a part of the stream that is no output: a comment, or the first events of a response.
func LostInSilence(losses int64, received <-chan struct{}) (appservertest.Handler, *atomic.Int64) {
	var turns atomic.Int64
	return func(_ context.Context, turn *appservertest.Turn) error {
		if turns.Add(1) > losses {
			turn.Text("Hello")
			return nil
		}
		<-received
		turn.Peer().Disconnect()
		return nil
	}, &turns
}

package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
	"codex-proxy/workers/dispatch"
)

func TestLossReasons(t *testing.T) {
	for want, err := range map[string]error{
		lostWorker: fmt.Errorf("cannot start a turn: %w",
			fmt.Errorf("%w: cannot read: EOF", rpc.ErrLost)),
		lostStart:      fmt.Errorf("cannot start a turn: %w", ErrStartTimeout),
		lostOverloaded: fmt.Errorf("cannot start a thread: %w", &rpc.Error{Code: rpc.CodeOverloaded}),
		lostStopping: &rpc.Error{Code: rpc.CodeInvalidRequest,
			Data: json.RawMessage(`{"reason":"serverShuttingDown"}`)},
		lostInterrupted: ErrInterrupted,
	} {
		assert.Equal(t, want, lossReason(err))
	}
	for _, err := range []error{
		nil, ErrClientGone, delivery.ErrSlowConsumer, &turnerror.Error{}, context.DeadlineExceeded,
		&rpc.Error{Code: rpc.CodeInternalError}, &rpc.Error{Code: rpc.CodeInvalidRequest},
	} {
		assert.Empty(t, lossReason(err), "%v", err)
	}
}

// A request without an answer is lost with the broker of a worker. Without a broker the endpoint cannot be reached, and
// what the broker reports of the endpoint is an answer.
func TestBrokerLost(t *testing.T) {
	brokered := true
	of := &run{Runner: &Runner{Settings: Settings{Brokered: func(worker string) bool { return brokered && worker == "w" }}},
		lease: &dispatch.Lease{Worker: "w"}}
	unanswered := &turnerror.Error{Message: "stream disconnected before completion: error sending request",
		Info: turnerror.Info{Kind: turnerror.KindOther}}
	assert.Equal(t, ending{lost: lostBroker, again: true}, of.judge(unanswered))
	assert.Equal(t, ending{}, of.judge(&turnerror.Error{Message: "unexpected status 502 Bad Gateway: x",
		Info: turnerror.Info{Kind: turnerror.KindConnectionFailed, HTTPStatus: 502}}))
	brokered = false
	assert.Equal(t, ending{}, of.judge(unanswered))
}

// A turn that was lost with its codex avoids that, also at other accounts. One that codex has refused does not.
func TestALostTurnAvoidsItsCodex(t *testing.T) {
	runner := &Runner{Settings: Settings{Logger: slog.New(slog.DiscardHandler)},
		metrics: newMetrics(prometheus.NewRegistry(), nil)}
	of := &run{Runner: runner, Request: Request{Report: &Report{}},
		lease: &dispatch.Lease{Worker: "a", Codex: dispatch.Codex{Invocation: "1", Account: "a"}}}
	beside := dispatch.Codex{Invocation: "1", Account: "b"}
	of.lose(lostOverloaded)
	assert.False(t, of.ask.LostOn(beside))
	of.lose(lostWorker)
	assert.True(t, of.ask.LostOn(beside))
	assert.False(t, of.ask.LostOn(of.lease.Codex), "it has another connection")
	assert.False(t, of.ask.LostOn(dispatch.Codex{Invocation: "2", Account: "b"}))
	of.lease.Codex = dispatch.Codex{}
	of.lose(lostWorker)
	assert.False(t, of.ask.LostOn(dispatch.Codex{}), "a codex of one account")
}

package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
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

package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appserver"
)

func TestLossReasons(t *testing.T) {
	for want, err := range map[string]error{
		lostWorker: fmt.Errorf("cannot start a turn: %w",
			fmt.Errorf("%w: cannot read: EOF", appserver.ErrConnectionLost)),
		lostStart:      fmt.Errorf("cannot start a turn: %w", ErrStartTimeout),
		lostOverloaded: fmt.Errorf("cannot start a thread: %w", &appserver.RPCError{Code: appserver.CodeOverloaded}),
		lostStopping: &appserver.RPCError{Code: appserver.CodeInvalidRequest,
			Data: json.RawMessage(`{"reason":"serverShuttingDown"}`)},
		lostInterrupted: ErrInterrupted,
	} {
		assert.Equal(t, want, lossReason(err))
	}
	for _, err := range []error{
		nil, ErrClientGone, appserver.ErrSlowConsumer, &appserver.TurnError{}, context.DeadlineExceeded,
		&appserver.RPCError{Code: appserver.CodeInternalError}, &appserver.RPCError{Code: appserver.CodeInvalidRequest},
	} {
		assert.Empty(t, lossReason(err), "%v", err)
	}
}

package rpc_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/codex/rpc"
)

// A reading loop that is stuck with a message is a fault of this process; a silent worker is none.
func TestAliveDistinguishesAStuckReaderFromASilentWorker(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	aside := func(_ context.Context, p *appservertest.Peer, _ json.RawMessage) bool {
		p.Notify("codex/aside", struct{}{})
		return false
	}
	c := dial(t, faulty("model/list", aside), rpc.Options{OnNotification: func(m rpc.Message) {
		if m.Method == "codex/aside" {
			close(entered)
			<-release
		}
	}})
	// The reply to initialize arrives a moment before the loop has handled it.
	require.Eventually(t, func() bool { return c.Alive(0) == nil }, time.Minute, time.Millisecond)
	listed := make(chan error, 1)
	go func() { listed <- c.Call(bound(t), "model/list", struct{}{}, nil) }()
	<-entered
	assert.NoError(t, c.Alive(time.Minute))
	require.ErrorContains(t, c.Alive(0), "the reading loop has been at one message for")
	close(release)
	require.NoError(t, <-listed)
}

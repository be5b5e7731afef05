package appserver_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/appserver/appservertest"
)

// A reading loop that is stuck with a message is our fault; one that waits for a
// worker which is silent is not.
func TestAliveTellsAStuckReaderFromASilentWorker(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	aside := func(_ context.Context, p *appservertest.Peer, _ json.RawMessage) bool {
		p.Notify("codex/aside", struct{}{})
		return false
	}
	srv := &appservertest.Server{Faults: map[string]appservertest.Fault{"model/list": aside}}
	c := connectWith(t, srv, appserver.Options{OnNotification: func(appserver.Notification) {
		close(entered)
		<-release
	}})
	// The handshake's answer is ours a moment before the loop is done with it.
	eventually(t, func() bool { return c.Alive(0) == nil }) // it waits for the worker, for however long
	listed := make(chan error, 1)
	go func() {
		_, err := c.Models(bound(t))
		listed <- err
	}()
	<-entered
	assert.NoError(t, c.Alive(time.Minute))
	require.ErrorContains(t, c.Alive(0), "the reading loop has been at one message for")
	close(release)
	require.NoError(t, <-listed)
}

package api

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// briefly bounds a question whose answer does not come.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // a busy machine asks in it
	t.Cleanup(cancel)
	return ctx
}

func TestAlive(t *testing.T) {
	r := newRig(t, nil)
	for range 20 {
		require.NoError(t, r.Alive(t.Context()))
		resp := r.do(t, http.MethodGet, "/livez", "")
		assert.Equal(t, http.StatusOK, resp.StatusCode, "a question costs no connection")
	}
}

// A handler that is stuck is named, and asked once only.
func TestAliveNamesStuckHandlers(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	r := newRig(t, nil, func(o *options) {
		o.probed = func() {
			entered <- struct{}{}
			<-release
		}
	})
	failed := make(chan error, 1)
	go func() { failed <- r.Alive(briefly(t)) }()
	<-entered
	err := <-failed
	assert.EqualError(t, err, "the HTTP handlers do not answer GET /livez: context deadline exceeded")
	assert.Error(t, r.Alive(briefly(t)))
	assert.Empty(t, entered, "still the first request")
	close(release)
	assert.NoError(t, r.Alive(t.Context()))
}

// A loop that does not accept is named by its address; one that has ended is
// somebody else's business.
func TestAliveNamesAStuckAcceptLoop(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	idle, _ := r.Connections.Listen(l)
	assert.EqualError(t, r.Alive(briefly(t)),
		"the loop that accepts on "+l.Addr().String()+" does not answer: context deadline exceeded")

	ended := make(chan error, 1)
	go func() {
		_, err := idle.Accept()
		ended <- err
	}()
	assert.NoError(t, r.Alive(t.Context()))
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	assert.NoError(t, r.Alive(t.Context()))
}

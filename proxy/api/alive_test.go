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

// aliveWithin asks with a bound, which some answer does not come within.
func (r *rig) aliveWithin(span time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	return r.Alive(ctx)
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
	ctx, cancel := context.WithCancel(t.Context())
	go func() { failed <- r.Alive(ctx) }()
	received(t, entered)
	cancel()
	err := received(t, failed)
	assert.EqualError(t, err, "the HTTP handlers do not answer GET /livez: context canceled")
	assert.EqualError(t, r.aliveWithin(100*time.Millisecond),
		"the HTTP handlers do not answer GET /livez: context deadline exceeded")
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
	want := "the loop that accepts on " + l.Addr().String() + " does not answer: context deadline exceeded"
	for span := 100 * time.Millisecond; span < bound; span *= 2 { // the others have to answer in it
		if err = r.aliveWithin(span); err == nil || err.Error() == want {
			break
		}
	}
	assert.EqualError(t, err, want)

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

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

// stuck asks until the error is want: with too little time, it has what would still answer, too.
func (r *rig) stuck(want string) (err error) {
	for span := 100 * time.Millisecond; span < bound; span *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), span)
		err = r.Alive(ctx)
		cancel()
		if err == nil || err.Error() == want {
			break
		}
	}
	return err
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
	const want = "the HTTP handlers do not answer GET /livez: context deadline exceeded"
	assert.EqualError(t, r.stuck(want), want)
	received(t, entered)
	assert.EqualError(t, r.stuck(want), want)
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
	assert.EqualError(t, r.stuck(want), want)

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

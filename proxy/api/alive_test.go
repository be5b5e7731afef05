package api_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/api/apitest"
)

func TestAlive(t *testing.T) {
	r := apitest.NewRig(t, nil)
	for range 20 {
		require.NoError(t, r.Alive(t.Context()))
		resp := r.Do(t, http.MethodGet, "/livez", "")
		assert.Equal(t, http.StatusOK, resp.StatusCode, "a question costs no connection")
	}
}

// A handler that is stuck is named, and asked once only.
func TestAliveNamesStuckHandlers(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	r := apitest.NewRig(t, nil, func(o *apitest.Options) {
		o.Probed = func() {
			entered <- struct{}{}
			<-release
		}
	})
	const want = "the HTTP handlers do not answer GET /livez: context deadline exceeded"
	assert.EqualError(t, r.Stuck(want), want)
	apitest.Received(t, entered)
	assert.EqualError(t, r.Stuck(want), want)
	assert.Empty(t, entered, "still the first request")
	close(release)
	assert.NoError(t, r.Alive(t.Context()))
}

// A loop that does not accept is named by its address; one that has ended is
// somebody else's business.
func TestAliveNamesAStuckAcceptLoop(t *testing.T) {
	r := apitest.NewRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	idle, _ := r.Connections.Listen(l)
	want := "the loop that accepts on " + l.Addr().String() + " does not answer: context deadline exceeded"
	assert.EqualError(t, r.Stuck(want), want)

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

package upstream

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request that waits until another one has finished with its connection is not one without an answer.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := New(nil, 0)
		transport.http.MaxConnsPerHost = 1
		p := over(t, transport, func(c net.Conn) net.Conn { return c })
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(2 * connectBound) //nolint:forbidigo // of the clock of synctest
		})}
		go func() { _ = server.Serve(p) }()
		answers := make(chan error, 3)
		for range cap(answers) {
			go func() {
				res, err := post(t, transport, "http://endpoint", "hello")
				if err == nil {
					err = res.Body.Close()
				}
				answers <- err
			}()
		}
		for range cap(answers) {
			assert.NoError(t, <-answers)
		}
		transport.Close()
		require.NoError(t, server.Close())
	})
}

// A request whose predecessors go away before they have a connection ends as early as it would alone.
func TestCancelledLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := New(nil, 0)
		transport.connect = func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(2 * connectBound) //nolint:forbidigo // of the clock of synctest
			return nil, net.ErrClosed
		}
		ask := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://endpoint", http.NoBody)
			require.NoError(t, err)
			_, err = transport.RoundTrip(r)
			return err
		}
		lead, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- ask(lead) }()
		synctest.Wait()
		time.AfterFunc(connectBound-time.Second, cancel)
		began := time.Now()
		assert.Equal(t, NoAnswer, ReasonOf(ask(t.Context())))
		assert.Equal(t, connectBound, time.Since(began))
		assert.ErrorIs(t, <-gone, context.Canceled)
		// net/http does not end the attempts.
		time.Sleep(2 * connectBound) //nolint:forbidigo // of the clock of synctest
	})
}

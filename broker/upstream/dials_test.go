package upstream

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Many requests at once make no more connections than the endpoint needs for them.
func TestFewConnections(t *testing.T) {
	const requests = 600 // a server of net/http takes 250 in one connection
	began, goOn := make(chan struct{}, requests), make(chan struct{})
	e, transport := newEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 1 {
			began <- struct{}{}
			<-goOn
		}
	})
	ask := func(body string) {
		res, err := post(t, transport, e.URL, body)
		if assert.NoError(t, err) {
			_, err = io.Copy(io.Discard, res.Body)
			assert.NoError(t, err)
			assert.NoError(t, res.Body.Close())
		}
	}
	ask("1")
	var all sync.WaitGroup
	for range requests {
		all.Go(func() { ask("many") })
	}
	for range requests {
		select {
		case <-began:
		case <-t.Context().Done():
		}
	}
	close(goOn)
	all.Wait()
	assert.LessOrEqual(t, int(e.connections.Load()), 20, "3 are enough; without a bound there are more than 100")
	assert.Empty(t, transport.dials, "no request holds its turn")
}

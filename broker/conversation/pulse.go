package conversation

import (
	"context"
	"errors"
	"time"
)

// A WebSocket is silent while the endpoint computes, and behind an HTTP proxy the kernel sees the proxy alone. Pings
// find out whether the endpoint is there, and keep the connection in the tables on its way.
const (
	pingEvery = 15 * time.Second
	pingBound = 30 * time.Second // as that of HTTP/2
)

var errSilent = errors.New("the endpoint answers no ping within " + pingBound.String())

// watch pings the endpoint, and ends the connection if that is silent.
func (s *socket) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.pulse.Alive(ctx, s.conn, pingBound) {
			s.end(errSilent)
			return
		}
	}
}

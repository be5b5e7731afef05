package conversation

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// A WebSocket is silent while the endpoint computes, and behind an HTTP proxy the kernel sees the proxy alone. Pings
// find out whether the endpoint is there, and keep the connection in the tables on its way.
const (
	pingEvery = 15 * time.Second
	pingBound = 30 * time.Second // as that of HTTP/2
)

var errSilent = errors.New("the endpoint answers no ping within " + pingBound.String())

// pulse is whether a WebSocket can answer a ping, and whether it moves without one.
type pulse struct {
	held  atomic.Int32  // by a request on its way up, or by a reader that waits for codex: a pong would be late
	moved atomic.Uint64 // at each piece that comes, and when held changes
}

// hold keeps pings off until free is called.
func (p *pulse) hold() (free func()) {
	p.held.Add(1)
	p.moved.Add(1)
	return func() {
		p.moved.Add(1)
		p.held.Add(-1)
	}
}

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
		if !s.alive(ctx) {
			s.end(errSilent)
			return
		}
	}
}

func (s *socket) alive(ctx context.Context) bool {
	before := s.pulse.moved.Load()
	if s.pulse.held.Load() > 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	err := s.conn.Ping(ctx) // the reader finds another end than silence
	return !errors.Is(err, context.DeadlineExceeded) || s.pulse.moved.Load() != before
}

// piece is the most that a read takes at once: a slow line would move too seldom by larger ones.
const piece = 32 << 10

// felt is the reader of a message.
type felt struct {
	io.Reader
	pulse *pulse
}

// Read implements io.Reader.
func (f *felt) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p[:min(len(p), piece)])
	f.pulse.moved.Add(1)
	return n, err
}

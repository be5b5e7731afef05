// Package pulse finds out by pings whether the peer of a WebSocket is there, although it sends nothing. A ping has its
// answer late while the connection is busy: that is no silence.
package pulse

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// Pulse is whether a WebSocket can answer a ping, and whether it moves without one. Its methods are safe for concurrent
// use.
type Pulse struct {
	held  atomic.Int32  // by a write to the peer, or by a reader that waits for a third: a pong would be late
	moved atomic.Uint64 // at each piece that comes, and when held changes
}

// Hold keeps pings off until free is called.
func (p *Pulse) Hold() (free func()) {
	p.held.Add(1)
	p.moved.Add(1)
	return func() {
		p.moved.Add(1)
		p.held.Add(-1)
	}
}

// Conn is a WebSocket.
type Conn interface {
	// Ping returns when the peer has answered.
	Ping(ctx context.Context) error
}

// Alive pings the peer, and reports false if it is silent for that time. The reader of the connection finds its other
// ends.
func (p *Pulse) Alive(ctx context.Context, conn Conn, bound time.Duration) bool {
	before := p.moved.Load()
	if p.held.Load() > 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := conn.Ping(ctx)
	return !errors.Is(err, context.DeadlineExceeded) || p.moved.Load() != before
}

// Piece is the most that a read takes at once, and that a write should: a slow line would move too seldom by larger
// ones. The library gives a ping 5 s for its way past one that is being written.
const Piece = 32 << 10

// Reader returns a reader of a message that moves the pulse.
func (p *Pulse) Reader(message io.Reader) io.Reader { return &reader{message, p} }

type reader struct {
	io.Reader
	pulse *Pulse
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p[:min(len(p), Piece)])
	r.pulse.moved.Add(1)
	return n, err
}

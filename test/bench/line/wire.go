package line

import (
	"errors"
	"io"
	"net"
	"time"
)

const (
	// segment is how much is read at once, and queue how many of them are on their way at most.
	segment, queue = 64 << 10, 1024
)

// piece is a part of a stream on its way.
type piece struct {
	arrives time.Time
	bytes   []byte
}

// lead passes connections on to the far end, late.
func (e *Endpoint) lead(near net.Listener, far string, o Options) error {
	for {
		conn, err := near.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		e.connections.Add(1)
		e.mostOpen.Store(max(e.mostOpen.Load(), e.open.Add(1)))
		go func() {
			defer e.open.Add(-1)
			connect(conn, far, o)
		}()
	}
}

// connect passes both ways of a connection on until one of its ends closes. The handshake of TCP takes a round trip, which
// the first bytes wait for.
func connect(near net.Conn, address string, o Options) {
	defer near.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pass(near, far, o.RoundTrip/2, 0, 0)
	}()
	pass(far, near, o.RoundTrip/2, o.RoundTrip, o.Up)
	<-done
}

// pass copies a stream with a delay, the first bytes with one more, at so many bits a second at most.
func pass(to, from net.Conn, delay, first time.Duration, rate int64) {
	pieces := make(chan piece, queue)
	go func() {
		defer close(pieces)
		read(from, pieces, delay, first, rate)
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.arrives)) //nolint:forbidigo // that is how far away it is
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_ = from.Close()
	for range pieces { // the reader ends
	}
	if t, ok := to.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}

func read(from io.Reader, pieces chan<- piece, delay, first time.Duration, rate int64) {
	var free time.Time // when the line is free
	for {
		b := make([]byte, segment)
		n, err := from.Read(b)
		if n > 0 {
			sent := time.Now()
			if rate > 0 {
				if free.Before(sent) {
					free = sent
				}
				free = free.Add(time.Duration(int64(n) * 8 * int64(time.Second) / rate))
				sent = free
			}
			pieces <- piece{sent.Add(delay + first), b[:n]}
			first = 0
		}
		if err != nil {
			return
		}
	}
}

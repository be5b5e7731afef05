package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// most bounds the connections of a forward. Further ones wait in the backlog of its socket: a user has a bound of
	// connections to the daemon, too.
	most = 32
	// acceptPause is the pause after a connection that could not be accepted.
	acceptPause = 100 * time.Millisecond
	// drain bounds the time in which answers are passed on that servers have sent before the end of the forward.
	drain = 2 * time.Second
)

// Forward listens on a port of this host for the clients of a port of a session.
type Forward struct {
	Mapping  // with the local port that it has
	listener *net.TCPListener
	relays   Relays
	slots    chan struct{}
	serving  sync.WaitGroup
}

// Listen begins to listen. Connections wait until Serve.
func Listen(m Mapping) (*Forward, error) {
	listener, err := net.Listen("tcp4", m.address())
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		return nil, fmt.Errorf("cannot listen on %s: %w (name another local port, such as 0:%d for any)", m.address(),
			err,
			m.Remote)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T is no listener of TCP", listener), listener.Close())
	}
	m.Local = tcp.Addr().(*net.TCPAddr).AddrPort().Port() //nolint:forcetypeassert // of TCP
	return &Forward{Mapping: m, listener: tcp, slots: make(chan struct{}, most)}, nil
}

// Serve forwards connections until Close, and returns when they have ended. open connects to the port of the session;
// its error is reported, and the client gets a reset. The end of ctx ends calls of open.
func (f *Forward) Serve(ctx context.Context, open func(context.Context) (Stream, error), report func(error)) {
	defer f.serving.Wait()
	for {
		f.slots <- struct{}{}
		conn, err := f.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no file is left, as a rule
			<-f.slots
			pause(ctx)
			continue
		}
		f.serving.Go(func() {
			defer func() { <-f.slots }()
			if err := f.serve(ctx, conn, open); err != nil && ctx.Err() == nil {
				report(err)
			}
		})
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(acceptPause):
	case <-ctx.Done():
	}
}

// serve forwards one connection. The error is the one of open: of a relay the client gets to know.
func (f *Forward) serve(ctx context.Context, conn *net.TCPConn, open func(context.Context) (Stream, error)) error {
	stream, err := open(ctx)
	if err != nil {
		_ = conn.SetLinger(0)
		return errors.Join(err, conn.Close())
	}
	_ = f.relays.Relay(conn, stream)
	return nil
}

// Close ends the forward and its connections. Answers that are on their way are passed on first, for a short time.
func (f *Forward) Close() {
	_ = f.listener.Close()
	f.relays.Close(drain)
}

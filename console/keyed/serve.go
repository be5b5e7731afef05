package keyed

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"codex-proxy/console/pipe"
	"codex-proxy/internal/ondemand"
	"codex-proxy/internal/resident"
)

// maxServers bounds the connections of servers: there is one, and its successor for a moment.
const maxServers = 4

// settled is how long a connection is open before the memory that its beginning has used is given back.
const settled = 2 * time.Second

// Server carries out the orders that come over connections of the server of the page. It ends when there has been none
// for a time.
type Server struct {
	Orders *Orders
	Unused time.Duration
}

// Run serves until ctx ends, or the time is over.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	idle := ondemand.NewIdle(s.Unused)
	defer idle.Stop()
	go func() {
		defer end()
		select {
		case <-ctx.Done():
		case <-idle.Over():
		}
	}()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var serving sync.WaitGroup
	defer serving.Wait()
	places := make(chan struct{}, maxServers)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		select {
		case places <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		idle.ConnState(conn, http.StateNew)
		time.AfterFunc(settled, func() { _ = resident.Trim() })
		serving.Go(func() {
			defer func() { <-places }()
			defer idle.ConnState(conn, http.StateClosed)
			defer conn.Close()
			_ = pipe.Serve(ctx, conn, s.Orders.Handle) // a server that sends no orders is cut off
		})
	}
}

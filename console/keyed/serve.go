package keyed

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/console/pipe"
	"codex-proxy/internal/ondemand"
	"codex-proxy/internal/resident"
)

// maxServers bounds the connections of servers: there is one, and its successor for a moment.
const maxServers = 4

// maxNotices bounds the notices of remotes that are worked on at the same time. Others wait in the socket.
const maxNotices = 4

// settled is how long a connection is open before the memory that its beginning has used is given back.
const settled = 2 * time.Second

// Server carries out the orders that come over connections of the server of the page, and passes on the notices of
// remotes. It ends when there has been no connection for a time.
type Server struct {
	Orders *Orders
	Unused time.Duration
	// Notice takes one notice of a remote from a connection, also after the end of its context; nil: none comes.
	Notice func(context.Context, net.Conn)

	notices net.Listener
}

// NoticesSocket is FileDescriptorName= of the socket of the notices.
const NoticesSocket = "console-push"

// SetSockets has the server listen for notices (socketservice.Server).
func (s *Server) SetSockets(all map[string][]net.Listener) {
	if list := all[NoticesSocket]; len(list) > 0 {
		s.notices = list[0]
	}
}

// door is a listener, and the work for its connections: with places for so many, further ones are closed, or wait.
type door struct {
	net.Listener
	places chan struct{}
	wait   bool
	serve  func(context.Context, net.Conn)
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
	doors := []door{{l, make(chan struct{}, maxServers), false, func(ctx context.Context, conn net.Conn) {
		_ = pipe.Serve(ctx, conn, s.Orders.Handle) // a server that sends no orders is cut off
	}}}
	if s.notices != nil && s.Notice != nil {
		doors = append(doors, door{s.notices, make(chan struct{}, maxNotices), true, s.Notice})
	}
	defer context.AfterFunc(ctx, func() {
		for _, d := range doors {
			d.Close()
		}
	})()
	var group errgroup.Group
	for _, d := range doors {
		group.Go(func() error {
			defer end()
			return d.accept(ctx, idle)
		})
	}
	return group.Wait()
}

// accept serves connections until ctx ends, and returns after the last one.
func (d door) accept(ctx context.Context, idle *ondemand.Idle) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		if d.wait && !d.await(ctx) {
			return nil
		}
		conn, err := d.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if !d.wait && !d.enter() {
			_ = conn.Close()
			continue
		}
		idle.ConnState(conn, http.StateNew)
		time.AfterFunc(settled, func() { _ = resident.Trim() })
		serving.Go(func() {
			defer func() { <-d.places }()
			defer idle.ConnState(conn, http.StateClosed)
			defer conn.Close()
			d.serve(ctx, conn)
		})
	}
}

// await takes a place as soon as there is one; false: ctx has ended. What is not accepted stays in the socket of systemd,
// for the next process.
func (d door) await(ctx context.Context) bool {
	select {
	case d.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// enter takes a place; false: there is none.
func (d door) enter() bool {
	select {
	case d.places <- struct{}{}:
		return true
	default:
		return false
	}
}

package ports

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
)

// forward is a Forward until end.
func forward(t *testing.T, open func(context.Context) (Stream, error), report func(error)) (f *Forward, end func()) {
	t.Helper()
	f, err := Listen(Mapping{Remote: 80})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		f.Serve(ctx, open, report)
	}()
	return f, func() {
		cancel()
		f.Close()
		<-served
	}
}

// ask returns what a connection to the port reads until its end.
func (m Mapping) ask() ([]byte, error) {
	conn, err := net.Dial("tcp", m.address())
	if err != nil {
		return nil, err // a reset may be there already
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return io.ReadAll(conn)
}

// greeter is a session with a server that says hello, and waits for the end of the client.
func greeter() Stream {
	near, far := net.Pipe()
	go func() {
		s := wire.NewPortStream(far, far)
		_, _ = s.Write([]byte("hello"))
		_ = s.CloseWrite()
		_, _ = io.Copy(io.Discard, s)
	}()
	return wire.NewPortStream(near, near)
}

// counted counts the streams that are open.
type counted struct {
	Stream

	open *atomic.Int32
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Stream.Close()
}

// More clients than there may be connections all have their turn.
func TestForward(t *testing.T) {
	var open, exceeded atomic.Int32
	f, end := forward(t, func(context.Context) (Stream, error) {
		if open.Add(1) > most {
			exceeded.Add(1)
		}
		return &counted{Stream: greeter(), open: &open}, nil
	}, func(err error) { assert.NoError(t, err) })
	assert.NotZero(t, f.Local)
	var clients sync.WaitGroup
	for range 4 * most {
		clients.Go(func() {
			got, err := f.ask()
			assert.NoError(t, err)
			assert.Equal(t, "hello", string(got))
		})
	}
	clients.Wait()
	assert.Zero(t, exceeded.Load())
	_, err := Listen(f.Mapping)
	assert.EqualError(t, err, fmt.Sprintf("cannot listen on 127.0.0.1:%d: bind: address already in use (name another local "+
		"port, such as 0:80 for any)", f.Local))
	end()
	_, err = f.ask()
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A connection that cannot be forwarded is reset, and reported.
func TestForwardWithoutAServer(t *testing.T) {
	reports := make(chan error, 1)
	f, end := forward(t, func(context.Context) (Stream, error) { return nil, os.ErrNotExist }, func(err error) { reports <- err })
	defer end()
	_, err := f.ask()
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	assert.ErrorIs(t, <-reports, os.ErrNotExist)
}

// A connection that still waits for a server at the end is reset.
func TestForwardEndsWhileOneWaits(t *testing.T) {
	waiting := make(chan struct{})
	f, end := forward(t, func(ctx context.Context) (Stream, error) {
		close(waiting)
		<-ctx.Done()
		return nil, ctx.Err()
	}, func(err error) { assert.NoError(t, err) })
	asked := make(chan error)
	go func() {
		_, err := f.ask()
		asked <- err
	}()
	<-waiting
	end()
	assert.ErrorIs(t, <-asked, syscall.ECONNRESET)
}

package sessions

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/ports"
)

// portPatience is how long a connection waits for a program that listens on the port of the session.
const portPatience = 10 * time.Second

// forwards are the forwards of one command line. They are made before there is a session, so that a port which is taken
// is an error before a command runs.
type forwards struct {
	client  *client.Client
	stderr  io.Writer // for several goroutines
	all     []*ports.Forward
	serving sync.WaitGroup
	stop    context.CancelFunc // nil before begin

	mu    sync.Mutex
	fault string // that was reported last
}

// listen listens on the local ports. The caller calls close.
func listen(c *client.Client, stderr io.Writer, mappings []ports.Mapping) (*forwards, error) {
	f := &forwards{client: c, stderr: stderr}
	for _, m := range mappings {
		one, err := ports.Listen(m)
		if err != nil {
			f.close()
			return nil, err
		}
		f.all = append(f.all, one)
	}
	return f, nil
}

// begin forwards connections to the ports of a session, and writes a line about each port.
func (f *forwards) begin(ctx context.Context, w io.Writer, session string) {
	ctx, f.stop = context.WithCancel(ctx)
	for _, one := range f.all {
		fmt.Fprintln(w, one.Line(session))
		f.serving.Go(func() {
			one.Serve(ctx, func(ctx context.Context) (ports.Stream, error) {
				return opened(f.client.AwaitPort(ctx, session, one.Remote, portPatience))
			}, f.report)
		})
	}
}

// opened is a stream as an interface, which is nil beside an error.
func opened(stream *wire.PortStream, err error) (ports.Stream, error) {
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// report reports why a connection was not forwarded, once for a row of the same faults.
func (f *forwards) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := err.Error(); text != f.fault {
		f.fault = text
		fmt.Fprintln(f.stderr, text)
	}
}

// close ends the forwards, and passes on the answers of servers that have ended.
func (f *forwards) close() {
	if f.stop != nil {
		f.stop()
	}
	for _, one := range f.all {
		one.Close()
	}
	f.serving.Wait()
}

// onlyPrivate refuses forwards to a session with the network of the host.
func onlyPrivate(s wire.Session) error {
	if s.Network {
		return fmt.Errorf("the session %s has the network of the host, where its servers are: connect to their ports, "+
			"without a forward", s.ID)
	}
	return nil
}

// PortForward is one command line that forwards ports of a session.
type PortForward struct {
	Client         *client.Client
	Stdout, Stderr io.Writer
	Ports          []ports.Mapping
}

// Forward forwards the ports until the last command of the session has ended, or until the end of ctx.
func (p PortForward) Forward(ctx context.Context, id string) error {
	s, err := p.Client.Session(ctx, id)
	if err == nil {
		err = onlyPrivate(s)
	}
	if err != nil {
		return err
	}
	last := s.Commands[len(s.Commands)-1]
	if last.State == wire.CommandEnded {
		return wire.Refuse(wire.Conflict, "forward its ports while one does", "no command of the session %s runs", id)
	}
	f, err := listen(p.Client, &serial{w: p.Stderr}, p.Ports)
	if err != nil {
		return err
	}
	defer f.close()
	f.begin(ctx, p.Stdout, id)
	_, err = p.Client.Wait(ctx, id, last.Number)
	return err
}

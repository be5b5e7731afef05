package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/control"
	"codex-proxy/runner/store"
)

// Shell opens a shell in the sandbox of the running command of a session, as control.Dir does.
func (s *Sessions) Shell(ctx context.Context, v store.Viewer, id string,
	t control.Terminal) (net.Conn, io.Reader, error) {
	if _, err := s.store.Sessions.Find(ctx, v, id); err != nil {
		return nil, nil, about(id, err)
	}
	conn, from, err := control.Dir(s.files.Control(id)).Shell(ctx, t)
	return conn, from, refusedStream(id, "a shell runs", "the session has no shell", err)
}

// Terminal connects to the terminal of a command when that runs, as Attach of control.Dir does.
func (s *Sessions) Terminal(ctx context.Context, v store.Viewer, id string, number int, t control.Terminal) (net.Conn,
	io.Reader, error) {
	if err := s.awaitRunning(ctx, v, id, number); err != nil {
		return nil, nil, err
	}
	conn, from, err := control.Dir(s.files.Control(id)).Attach(ctx, t)
	return conn, from, refusedStream(id, "a terminal is there", "no terminal can be had", err)
}

// awaitRunning waits until a command runs. The error is about one that has ended.
func (s *Sessions) awaitRunning(ctx context.Context, v store.Viewer, id string, number int) error {
	for {
		changed := s.queue.Changed()
		c, err := s.Command(ctx, v, id, number)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case c.State == wire.CommandRunning:
			return nil
		case c.State == wire.CommandHeld || c.State == wire.CommandEnded:
			return wire.Refuse(wire.Conflict, "`codex-runner show "+id+"` says how", "command %d has ended", number)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Port connects to a port of the running command of a session, as control.Dir does. A session with the network has the
// loopback of the host: its servers are there for every user, and so are services of the host, which are not forwarded.
func (s *Sessions) Port(ctx context.Context, v store.Viewer, id string, port uint16) (net.Conn, io.Reader, error) {
	found, err := s.store.Sessions.Find(ctx, v, id)
	if err != nil {
		return nil, nil, about(id, err)
	}
	if found.Network {
		return nil, nil, wire.Refuse(wire.Conflict, fmt.Sprintf("connect to 127.0.0.1:%d", port),
			"the session %s has the network of the host, and no ports of its own", id)
	}
	conn, from, err := control.Dir(s.files.Control(id)).Port(ctx, port)
	return conn, from, refusedStream(id, "a connection leads", fmt.Sprintf("the port %d cannot be reached", port), err)
}

// refusedStream is the error of a stream that was not opened. thing is the stream, and fault the refusal of the
// session.
func refusedStream(id, thing, fault string, err error) error {
	if errors.Is(err, control.ErrNotRunning) || control.Gone(err) {
		return wire.Refuse(wire.Conflict, thing+" beside a command of the session", "no command of the session %s runs",
			id)
	}
	if refused, ok := errors.AsType[control.Refused](err); ok {
		return wire.Refuse(wire.Conflict, "`codex-runner show "+id+"` says what it does", "%s: %s", fault, refused)
	}
	return err
}

package apitest

import (
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

// Now is the time of all that happens.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// session is a session. Daemon.mu guards it, and its commands.
type session struct {
	wire.Session
	asked     wire.NewSession
	commands  []*Command
	artifacts []wire.Artifact
	contents  []string
}

// whole is the session as the API shows it.
func (s *session) whole() wire.Session {
	copied := s.Session
	copied.Commands = nil
	for _, c := range s.commands {
		copied.Commands = append(copied.Commands, c.state)
	}
	return copied
}

// Command is one that runs. Its methods may be called by several goroutines.
type Command struct {
	Session string // its ID
	Number  int
	Asked   wire.NewCommand
	Of      wire.NewSession // as the session was made

	daemon    *Daemon
	session   *session
	state     wire.Command
	stdin     []byte
	chunks    []logs.Chunk
	size      int64
	cancelled chan struct{}
	typed     chan string
}

// Stdin is the standard input that the client sent.
func (c *Command) Stdin() []byte { return c.stdin }

// Write adds to the output.
func (c *Command) Write(stream logs.Stream, text string) {
	c.daemon.change(func() {
		c.chunks = append(c.chunks, logs.Chunk{Time: Now, Stream: stream, Offset: c.size, Data: []byte(text)})
		c.size += int64(len(text))
	})
}

// Typed is the input of the command's terminal, and changes of its size as ROWSxCOLUMNS.
func (c *Command) Typed() <-chan string { return c.typed }

// Cancelled is closed when a client cancels the command, or when the test ends.
func (c *Command) Cancelled() <-chan struct{} { return c.cancelled }

// Keep adds an artifact.
func (c *Command) Keep(a wire.Artifact, content string) {
	c.daemon.change(func() {
		a.ID, a.Command, a.Created = int64(len(c.session.artifacts)+1), c.Number, Now
		a.Bytes = int64(len(content))
		c.session.artifacts = append(c.session.artifacts, a)
		c.session.contents = append(c.session.contents, content)
	})
}

// Hold keeps the command for shells, until a client releases or cancels it.
func (c *Command) Hold(o outcome.Outcome) {
	c.daemon.change(func() { c.state.State = wire.CommandHeld })
	<-c.Cancelled()
	c.End(o)
}

// End ends the command.
func (c *Command) End(o outcome.Outcome) {
	c.daemon.change(func() {
		c.state.State, c.state.Outcome, c.state.Ended = wire.CommandEnded, &o, Now.Add(1500*time.Millisecond)
		c.state.Usage = &wire.Usage{Output: c.size}
		if c.session.State != wire.SessionClosed {
			c.session.State = wire.SessionIdle
		}
		c.daemon.next(c.session)
	})
}

// next starts the first command of a session that has not ended, unless it runs. Daemon.mu is held.
func (d *Daemon) next(s *session) {
	for _, c := range s.commands {
		switch c.state.State {
		case wire.CommandEnded:
			continue
		case wire.CommandQueued:
			c.state.State, c.state.Started = wire.CommandRunning, Now
			s.State = wire.SessionActive
			d.running.Go(func() { d.run(c) })
		}
		return
	}
}

// add queues a command. Daemon.mu is held.
func (d *Daemon) add(s *session, asked wire.NewCommand) *Command {
	c := &Command{
		Session: s.ID, Number: len(s.commands) + 1, Asked: asked, Of: s.asked, daemon: d, session: s,
		cancelled: make(chan struct{}), typed: make(chan string, 1000),
	}
	c.state = wire.Command{
		Number: c.Number, State: wire.CommandQueued, Args: asked.Args, Directory: asked.Directory,
		Limits: asked.Limits, Created: Now,
	}
	if asked.Stdin {
		c.state.State = wire.CommandAwaitingStdin
	}
	s.commands, s.State = append(s.commands, c), wire.SessionActive
	d.next(s)
	return c
}

// cancel cancels a command, and ends one that does not run yet. Daemon.mu is held.
func (c *Command) cancel() {
	select {
	case <-c.cancelled:
		return
	default:
		close(c.cancelled)
	}
	if c.state.State == wire.CommandQueued || c.state.State == wire.CommandAwaitingStdin {
		c.state.State, c.state.Ended = wire.CommandEnded, Now
		c.state.Outcome = &outcome.Outcome{Word: outcome.Cancelled, CancelledBy: "alice", ExitStatus: 130,
			Text: "The command was cancelled by alice."}
	}
}

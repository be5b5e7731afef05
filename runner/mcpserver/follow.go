package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/sessions"
)

const (
	// defaultWait is how long a call waits for the end of a command: less than the programs of agents wait for a tool.
	defaultWait = 45 * time.Second
	maxWait     = time.Hour
)

var (
	errWaited = errors.New("the time to wait is over")
	errEnough = errors.New("the answer has its bytes")
)

// bounds are the bounds of an answer.
type bounds struct {
	wait  time.Duration
	bytes int
}

// bounded reads the parameters for bounds.
func bounded(wait string, otherwise time.Duration, bytes int) (bounds, error) {
	b := bounds{otherwise, bytes}
	if wait != "" {
		d, err := time.ParseDuration(wait)
		if err != nil || d < 0 || d > maxWait {
			return b, fmt.Errorf("wait=%q: want a time with its unit, from 0s to %v, such as 30s", wait, maxWait)
		}
		b.wait = d
	}
	switch {
	case bytes == 0:
		b.bytes = defaultOutput
	case bytes < minOutput || bytes > maxOutput:
		return b, fmt.Errorf("max_output=%d: want %d to %d bytes", bytes, minOutput, maxOutput)
	}
	return b, nil
}

// follow waits until a command has ended, or the time is over, and reports it with the end of its output.
func (s *Server) follow(ctx context.Context, c *call, id string, n int, b bounds) (report, error) {
	kept := tail{keep: b.bytes}
	state, err := s.read(ctx, c, client.Log{Session: id, Command: n, Sink: func(chunk logs.Chunk) error {
		kept.add(chunk)
		c.wrote(chunk.Data)
		return nil
	}}, b.wait)
	if err != nil {
		return report{}, err
	}
	r := report{
		Session: id, command: commandOf(state, time.Now()), part: kept.part(ended(state)), Size: kept.end,
	}
	if hint := sessions.OwnProgram(state); hint != "" {
		r.Notes = append(r.Notes, hint)
	}
	return r, nil
}

// read reads a log until the command has ended, or the time is over, or its sink returns errEnough. Without a time it
// reads up to the present end. It returns the command.
func (s *Server) read(ctx context.Context, c *call, log client.Log, wait time.Duration) (wire.Command, error) {
	c.about(log.Session, log.Command)
	log.Follow = wait > 0
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if log.Follow {
		bounded, cancel = context.WithTimeoutCause(ctx, wait, errWaited)
	}
	defer cancel()
	beats, stop := context.WithCancel(ctx)
	defer stop()
	go c.progress(beats)
	end, err := s.Client.ReadLog(bounded, log)
	switch {
	case err == nil:
		return end.Command, nil
	case errors.Is(err, errWaited) || errors.Is(err, errEnough):
		return s.command(ctx, log.Session, log.Command)
	}
	return wire.Command{}, err
}

// command returns the nth command of a session, the last one if n is 0.
func (s *Server) command(ctx context.Context, id string, n int) (wire.Command, error) {
	got, err := s.Client.Session(ctx, id)
	if err != nil {
		return wire.Command{}, err
	}
	if n == 0 {
		n = len(got.Commands)
	}
	if n < 1 || n > len(got.Commands) {
		return wire.Command{}, fmt.Errorf("the session %s has no command %d: it has 1 to %d", id, n, len(got.Commands))
	}
	return got.Commands[n-1], nil
}

// size is how many bytes of output a command has written.
func (s *Server) size(ctx context.Context, id string, n int) (int64, error) {
	end, err := s.Client.ReadLog(ctx, client.Log{Session: id, Command: n, From: math.MaxInt64})
	return end.Offset, err
}

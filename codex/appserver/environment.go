package appserver

import (
	"context"
	"fmt"

	"codex-proxy/codex/wire"
)

// Environment is an exec-server, which executes the commands of a turn and reads and writes its files (`codex
// exec-server`).
type Environment struct {
	// ID is its name for codex. Another environment with the same ID takes its place for threads that start later:
	// codex keeps each ID for good.
	ID string
	// URL is the address of a WebSocket on the loopback, as codex reaches it. codex sends Token there.
	URL, Token string
	// Dir is the working directory.
	Dir string
}

// environments are those that codex knows by this connection.
type environments struct {
	turn  chan struct{}     // has a token during environment/add, so that no thread starts in the environment before
	known map[string]string // the URL, by ID
}

// addEnvironment makes an environment known to codex, unless it is nil.
func (c *Conn) addEnvironment(ctx context.Context, e *Environment) error {
	if e == nil {
		return nil
	}
	select {
	case c.adding.turn <- struct{}{}:
		defer func() { <-c.adding.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.adding.known[e.ID] == e.URL {
		return nil
	}
	params := wire.EnvironmentAdd{ID: e.ID, URL: e.URL, Token: e.Token}
	if err := c.Call(ctx, "environment/add", params, &struct{}{}); err != nil {
		return fmt.Errorf("cannot name the hands of the turn: %w", err)
	}
	c.adding.known[e.ID] = e.URL
	return nil
}

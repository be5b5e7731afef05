package runnerorders

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/pipe"
	"codex-proxy/console/verbs"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

type given = map[string]string

type rig struct {
	*verbs.Table
	daemon *apitest.Daemon
	client *client.Client
	all    map[string]verbs.Verb

	stopped atomic.Bool
}

var errStopped = errors.New("it does not run")

func (r *rig) running(context.Context) error {
	if r.stopped.Load() {
		return errStopped
	}
	return nil
}

func newRig(t *testing.T, readOnly bool, run func(*apitest.Command)) *rig {
	t.Helper()
	r := &rig{daemon: apitest.Start(t, run)}
	r.client = client.New(r.daemon.Socket)
	t.Cleanup(r.client.Close)
	r.all = All(Settings{Client: r.client, Running: r.running,
		Doctor: func(context.Context) (any, error) { return given{"ok": "yes"}, nil }})
	r.Table = verbs.New(readOnly, r.all)
	return r
}

func (r *rig) create(t *testing.T) string {
	t.Helper()
	s, err := r.client.CreateSession(t.Context(), wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"make"}}}})
	require.NoError(t, err)
	return s.ID
}

func (r *rig) try(verb string, words given) (json.RawMessage, error) {
	return r.Handle(context.Background(), pipe.Order{Verb: verb, Words: words}, func(json.RawMessage) error { return nil })
}

// The page follows the sessions and an output as it is written, and ends a command.
func TestOrders(t *testing.T) {
	written, more := make(chan struct{}), make(chan struct{})
	r := newRig(t, false, func(c *apitest.Command) {
		c.Write(logs.Stdout, strings.Repeat("x", maxTail)+"first\n")
		close(written)
		<-more
		c.Write(logs.Stderr, "second\n")
		<-c.Cancelled()
		c.End(outcome.Outcome{Word: outcome.Cancelled, Text: "alice cancelled it."})
	})
	id := r.create(t)
	<-written
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	states := make(chan string, 100)
	watched := make(chan error, 1)
	go func() {
		_, err := r.Handle(ctx, pipe.Order{Verb: "watch"}, func(raw json.RawMessage) error {
			var c changes
			if err := json.Unmarshal(raw, &c); err != nil {
				return err
			}
			for _, s := range c.Changed {
				states <- string(s.State)
			}
			return nil
		})
		watched <- err
	}()
	assert.Equal(t, "active", <-states)

	var text strings.Builder
	var end *wire.LogEnd
	first := true
	_, err := r.Handle(ctx, pipe.Order{Verb: "log", Words: given{"session": id, "command": "1"}}, func(raw json.RawMessage) error {
		var p part
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		text.WriteString(p.Text)
		if first {
			assert.True(t, p.Cut, "the page gets the end of a long output")
			first = false
			close(more)
		}
		if strings.HasSuffix(text.String(), "second\n") && end == nil && p.End == nil {
			_, err := r.try("cancel", given{"session": id})
			return err
		}
		end = p.End
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, maxTail+len("second\n"), text.Len())
	require.NotNil(t, end)
	assert.Equal(t, "alice cancelled it.", end.Command.Outcome.Text)
	for state := range states {
		if state == "closed" {
			break
		}
	}
	cancel()
	assert.ErrorIs(t, <-watched, context.Canceled)
	raw, err := r.try("show", given{"session": id})
	require.NoError(t, err)
	assert.Contains(t, string(raw), "alice cancelled it.")
	raw, err = r.try("doctor", nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"ok":"yes"}`, string(raw))
}

// An open page does not start a service that was stopped, as each connection would.
func TestStoppedServiceStaysSo(t *testing.T) {
	r := newRig(t, false, func(c *apitest.Command) {
		c.Write(logs.Stdout, "begins")
		<-c.Cancelled()
		c.End(outcome.Outcome{Word: outcome.Cancelled})
	})
	words := given{"session": r.create(t), "command": "1"}
	_, err := r.Handle(t.Context(), pipe.Order{Verb: "log", Words: words}, func(json.RawMessage) error {
		r.stopped.Store(true)
		r.daemon.Down()
		return nil
	})
	require.ErrorIs(t, err, errStopped, "the log does not connect again")
	_, err = r.try("log", words)
	require.ErrorIs(t, err, errStopped)
	_, err = r.try("watch", nil)
	require.ErrorIs(t, err, errStopped)
}

// The sessions come in lines of a bounded length.
func TestManySessions(t *testing.T) {
	r := newRig(t, false, func(c *apitest.Command) { c.End(outcome.Outcome{Word: outcome.Succeeded}) })
	for range maxChanges + 1 {
		r.create(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lines []changes
	_, err := r.Handle(ctx, pipe.Order{Verb: "watch"}, func(raw json.RawMessage) error {
		var c changes
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		if lines = append(lines, c); len(lines) == 2 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []int{maxChanges, 1}, []int{len(lines[0].Changed), len(lines[1].Changed)})
	assert.Equal(t, []bool{true, false}, []bool{lines[0].Whole, lines[1].Whole})
}

func TestHold(t *testing.T) {
	r := newRig(t, false, func(c *apitest.Command) { c.Hold(outcome.Outcome{Word: outcome.Failed, Status: 1}) })
	id := r.create(t)
	r.daemon.Await(id, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandHeld })
	_, err := r.try("release", given{"session": id})
	require.NoError(t, err)
	r.daemon.Await(id, func(s wire.Session) bool { return s.Commands[0].State == wire.CommandEnded })
}

func TestHostileOrders(t *testing.T) {
	r := newRig(t, false, nil)
	const session = "aaaaaaaaaaaaaaaa"
	for name, o := range map[string]pipe.Order{
		"an order of codex-proxy":    {Verb: "drain", Words: given{"worker": "a"}},
		"a command":                  {Verb: "run", Words: given{"args": "true"}},
		"a session of a path":        {Verb: "cancel", Words: given{"session": "../../v1/prune"}},
		"no session":                 {Verb: "cancel"},
		"a command that is none":     {Verb: "log", Words: given{"session": session, "command": "1/logs?follow=true"}},
		"a negative command":         {Verb: "cancel", Words: given{"session": session, "command": "-1"}},
		"the sessions of all":        {Verb: "watch", Words: given{"all": "true"}},
		"a session in capitals":      {Verb: "show", Words: given{"session": "AAAAAAAAAAAAAAAA"}},
		"a further word":             {Verb: "release", Words: given{"session": session, "by": "root"}},
		"a log of no command at all": {Verb: "log", Words: given{"session": session}},
	} {
		_, err := r.try(o.Verb, o.Words)
		require.Error(t, err, name)
		var refused *wire.Error
		assert.False(t, errors.As(err, &refused), "%s does not reach the service: %v", name, err)
	}
}

func TestReadOnly(t *testing.T) {
	r := newRig(t, true, nil)
	for verb, of := range r.all {
		if !of.Changes {
			continue
		}
		_, err := r.try(verb, given{"session": "aaaaaaaaaaaaaaaa"})
		assert.ErrorIs(t, err, verbs.ErrReadOnly, verb)
	}
	assert.True(t, r.all["cancel"].Changes)
	assert.True(t, r.all["release"].Changes)
}

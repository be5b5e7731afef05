// Package runnerorders has the orders of the page of `codex-runner console`: six verbs.
package runnerorders

import (
	"context"
	"strconv"

	"codex-proxy/console/verbs"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
)

// Settings configure the orders.
type Settings struct {
	Client *client.Client
	All    bool // the sessions of all users, for administrators
	// Running is an error if the service does not run. A connection would start it, by its socket.
	Running func(context.Context) error
	// Doctor examines the installation, and returns the object of `codex-runner doctor --json`.
	Doctor func(context.Context) (any, error)
}

const (
	// maxSessions bounds the sessions that a page shows.
	maxSessions = 1000
	// maxChanges bounds the changes in one line.
	maxChanges = 250
)

// The words.
var (
	id     = verbs.Match(`[a-z2-7]{16}`)
	number = verbs.Match(`[1-9][0-9]{0,5}`)
)

type words = map[string]verbs.Form

// All returns all verbs.
func All(s Settings) map[string]verbs.Verb {
	session := words{"session": id}
	return map[string]verbs.Verb{
		"watch":  {Run: s.watch},
		"doctor": {Run: verbs.OneAtATime(s.Doctor)},
		"show": {Words: session, Needs: []string{"session"},
			Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
				return s.Client.Session(ctx, w["session"])
			}},
		"log": {Words: words{"session": id, "command": number}, Needs: []string{"session", "command"}, Run: s.log},
		"cancel": {Changes: true, Words: words{"session": id, "command": number}, Needs: []string{"session"},
			Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
				n, _ := strconv.Atoi(w["command"]) // without one all of them, and the session
				return s.Client.Cancel(ctx, w["session"], n)
			}},
		"release": {Changes: true, Words: session, Needs: []string{"session"},
			Run: func(ctx context.Context, w verbs.Words, _ verbs.Send) (any, error) {
				return s.Client.Release(ctx, w["session"])
			}},
	}
}

// changes is a line of the stream for the page.
type changes struct {
	Whole   bool           `json:"sessions_whole,omitempty"`
	Runner  *wire.Status   `json:"runner,omitempty"`
	Changed []wire.Session `json:"changed,omitempty"`
	Removed []string       `json:"removed,omitempty"`
}

func (s Settings) watch(ctx context.Context, _ verbs.Words, send verbs.Send) (any, error) {
	if err := s.Running(ctx); err != nil {
		return nil, err
	}
	return nil, client.Watch(ctx, s.Client, client.Filter{All: s.All, Limit: maxSessions}, func(w wire.Watched) error {
		c := changes{Whole: w.Whole, Runner: w.Status, Removed: w.Removed}
		for {
			n := min(len(w.Sessions), maxChanges)
			c.Changed, w.Sessions = w.Sessions[:n], w.Sessions[n:]
			if err := send(c); err != nil || len(w.Sessions) == 0 {
				return err
			}
			c = changes{}
		}
	})
}

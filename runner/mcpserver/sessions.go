package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/paths"
)

const (
	listedSessions = 20
	listedCommands = 50
)

var (
	sessionsTool = mcp.Tool{
		Name: "sessions", Title: "List sessions", Annotations: readOnly,
		Description: "Lists the newest sessions of the user, each with its last command.",
	}
	showTool = mcp.Tool{
		Name: "show", Title: "Show a session", Annotations: readOnly,
		Description: "Shows a session: its workspace, and its commands with how they stand or ended.",
	}
)

type sessionsInput struct {
	State string `json:"state,omitempty" jsonschema:"only those that are active (a command waits or runs), idle or closed"`
}

// session is one session, with its last commands.
type session struct {
	Session     string    `json:"session" jsonschema:"its ID"`
	State       string    `json:"state" jsonschema:"active, idle or closed"`
	Created     string    `json:"created"`
	Repository  string    `json:"repository,omitempty"`
	Commit      string    `json:"commit,omitempty"`
	Environment string    `json:"environment"`
	Network     bool      `json:"network"`
	Commands    []command `json:"commands" jsonschema:"the last ones"`
}

func sessionOf(s wire.Session, now time.Time) session {
	got := session{
		Session: s.ID, State: string(s.State), Created: s.Created.UTC().Format(time.RFC3339), Repository: s.Repository,
		Commit: s.Commit, Environment: s.Environment, Network: s.Network, Commands: []command{},
	}
	for _, c := range s.Commands[max(0, len(s.Commands)-listedCommands):] {
		got.Commands = append(got.Commands, commandOf(c, now))
	}
	return got
}

func (s session) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %s, %s, made %s", s.Session, s.State, s.Created)
	if s.Repository != "" {
		fmt.Fprintf(&b, ", of %s at %s", s.Repository, s.Commit)
	}
	b.WriteString("\n")
	for _, c := range s.Commands {
		fmt.Fprintf(&b, "%d. %s: %s\n", c.Number, c.Line, c.sentence())
	}
	return b.String()
}

type sessionList struct {
	Sessions []session `json:"sessions" jsonschema:"the newest first"`
}

func (l sessionList) text() string {
	if len(l.Sessions) == 0 {
		return "There is no session."
	}
	var b strings.Builder
	for _, s := range l.Sessions {
		b.WriteString(s.text())
	}
	return b.String()
}

func (s *Server) sessions(ctx context.Context, _ *call, in sessionsInput) (sessionList, error) {
	switch state := wire.SessionState(in.State); state {
	case "", wire.SessionActive, wire.SessionIdle, wire.SessionClosed:
		all, err := s.Client.Sessions(ctx, client.Filter{State: state, Limit: listedSessions})
		list := sessionList{[]session{}}
		for _, one := range all {
			list.Sessions = append(list.Sessions, sessionOf(one, time.Now()))
		}
		return list, err
	}
	return sessionList{}, fmt.Errorf("state=%q: want active, idle or closed", in.State)
}

type showInput struct {
	Session string `json:"session" jsonschema:"the ID of the session"`
}

func (s *Server) show(ctx context.Context, _ *call, in showInput) (session, error) {
	if err := paths.CheckID(in.Session); err != nil {
		return session{}, err
	}
	got, err := s.Client.Session(ctx, in.Session)
	return sessionOf(got, time.Now()), err
}

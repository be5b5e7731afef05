package mcpserver

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/runner/paths"
)

var cancelTool = mcp.Tool{
	Name: "cancel", Title: "Cancel commands", Annotations: ending,
	Description: `Ends a command and all its processes, or all commands of a session, which is closed then: its workspace is
gone, its record and output stay. Returns how the command ended.`,
}

type cancelInput struct {
	Session string `json:"session" jsonschema:"the ID of the session"`
	Command int    `json:"command,omitempty" jsonschema:"the number of one command; without it all are ended, and the session is closed"`
}

// cancelWait is more than a command has from SIGTERM to SIGKILL, as a rule.
const cancelWait = 15 * time.Second

func (s *Server) cancel(ctx context.Context, c *call, in cancelInput) (report, error) {
	if err := paths.CheckID(in.Session); err != nil {
		return report{}, err
	}
	// The one that runs: those behind it end at once.
	of, err := s.current(ctx, in.Session, in.Command)
	if err != nil {
		return report{}, err
	}
	if _, err := s.Client.Cancel(ctx, in.Session, in.Command); err != nil {
		return report{}, err
	}
	return s.follow(ctx, c, in.Session, of, bounds{cancelWait, defaultOutput})
}

// current is the number n, or of the first command that has not ended, or of the last one.
func (s *Server) current(ctx context.Context, id string, n int) (int, error) {
	if n != 0 {
		found, err := s.command(ctx, id, n)
		return found.Number, err
	}
	session, err := s.Client.Session(ctx, id)
	for _, c := range session.Commands {
		if n = c.Number; !ended(c) {
			break
		}
	}
	return n, err
}

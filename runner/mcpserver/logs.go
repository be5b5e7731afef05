package mcpserver

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
)

var logsTool = mcp.Tool{
	Name: "logs", Title: "Read the output of a command", Annotations: readOnly,
	Description: `Returns how a command stands or ended, and a part of its output: the end, or the bytes from since_offset
on. With wait it first waits for the end of the command; with since_offset as well, it returns as soon as the answer is full.`,
}

type logsInput struct {
	Session string `json:"session" jsonschema:"the ID of the session"`
	Command int    `json:"command,omitempty" jsonschema:"the number of the command; without it the last one"`
	Since   *int64 `json:"since_offset,omitempty" jsonschema:"begin at this byte of the output; without it the answer has the end"`
	Wait    string `json:"wait,omitempty" jsonschema:"how long this call waits for the end of the command, such as 45s; without it not at all"`
	Max     int    `json:"max_output,omitempty" jsonschema:"bytes of output in the answer; 16384 without it"`
}

func (s *Server) logs(ctx context.Context, c *call, in logsInput) (report, error) {
	b, err := bounded(in.Wait, 0, in.Max)
	if err == nil {
		err = paths.CheckID(in.Session)
	}
	if err != nil {
		return report{}, err
	}
	asked, err := s.command(ctx, in.Session, in.Command)
	switch {
	case err != nil:
		return report{}, err
	case in.Since == nil:
		return s.follow(ctx, c, in.Session, asked.Number, b)
	case *in.Since < 0:
		return report{}, errors.New("since_offset is negative: want a number of bytes, such as next_offset of the last answer")
	}
	return s.since(ctx, c, in.Session, asked.Number, *in.Since, b)
}

// since reports a command with the output from an offset on.
func (s *Server) since(ctx context.Context, c *call, id string, n int, from int64, b bounds) (report, error) {
	kept := tail{keep: b.bytes, end: from}
	full := false
	state, err := s.read(ctx, c, client.Log{Session: id, Command: n, From: from, Sink: func(chunk logs.Chunk) error {
		rest := b.bytes - len(kept.data)
		if full = len(chunk.Data) >= rest; full {
			chunk.Data = chunk.Data[:rest]
		}
		kept.add(chunk)
		c.wrote(chunk.Data)
		if full {
			return errEnough
		}
		return nil
	}}, b.wait)
	if err != nil {
		return report{}, err
	}
	size, err := s.size(ctx, id, n)
	if err != nil {
		return report{}, err
	}
	return report{
		Session: id, command: commandOf(state, time.Now()), part: kept.part(ended(state) &&
			kept.end >= size), Size: size,
	}, nil
}

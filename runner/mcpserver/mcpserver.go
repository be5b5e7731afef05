// Package mcpserver is `codex-runner mcp`: it gives coding agents the runner as tools of the Model Context Protocol. An
// agent runs commands in sessions, reads their output, applies patches and cancels, over the API of the daemon and with
// the rights of the user that runs the program.
package mcpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/runner/client"
)

// Settings are the settings of a Server.
type Settings struct {
	Client  *client.Client
	Version string
	Logger  *slog.Logger // of faults of the protocol
	// Beat is the time between two progress notifications of a call.
	Beat time.Duration
}

// Server serves one agent. It keeps nothing: sessions are the daemon's, and outlive it.
type Server struct {
	Settings
	mcp   *mcp.Server
	calls sync.WaitGroup // those that run
}

const instructions = `Runs commands in sandboxed sessions that systemd supervises, with limits and a recorded end.
run makes a session (from a git repository, or empty) and runs a command in it; pass the session it returns to further
calls of run and patch: they use the same workspace, one after the other. If a command still runs when a call returns,
its state is not "ended": call logs with wait to go on. Answers have the end of the output; logs reads any other part
by offset. run says what a command has in its sandbox. A session without commands is closed after a while; cancel closes it at once.`

// New returns a Server with its tools.
func New(settings Settings) *Server {
	s := &Server{Settings: settings}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "codex-runner", Version: s.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: s.Logger, Capabilities: &mcp.ServerCapabilities{},
	})
	add(s, runTool, s.run)
	add(s, patchTool, s.patch)
	add(s, logsTool, s.logs)
	add(s, cancelTool, s.cancel)
	add(s, sessionsTool, s.sessions)
	add(s, showTool, s.show)
	add(s, artifactsTool, s.artifacts)
	add(s, artifactTool, s.artifact)
	return s
}

// Run serves the agent at the other end of in and out until it closes in, or until the end of ctx. Commands that a call
// waits for then are cancelled, as if the agent had cancelled the call.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.mcp.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	s.calls.Wait()
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// An answer is the structured result of a tool.
type answer interface {
	// text has the same facts, for programs that pass only text on to the model.
	text() string
}

// add makes do a tool. An error of do is the result of the tool: a sentence, with the remedy.
func add[In any, Out answer](s *Server, t mcp.Tool, do func(context.Context, *call, In) (Out, error)) {
	mcp.AddTool(s.mcp, &t, func(ctx context.Context, r *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		s.calls.Add(1)
		defer s.calls.Done()
		out, err := do(ctx, &call{request: r, beat: s.Beat, began: time.Now()}, in)
		if err != nil {
			return nil, out, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.text()}}}, out, nil
	})
}

// The effects of tools, by which the agent's program decides which it may call unasked.
var (
	readOnly = &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	// changing tools change files in the sandbox of a session, and nothing outside of it.
	changing = &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)}
	// running is for any command, which may have the network.
	running = &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}
	ending  = &mcp.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: new(false)}
)

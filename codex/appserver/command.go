package appserver

import (
	"context"
	"fmt"
	"time"
)

// CommandResult is how a command ended.
type CommandResult struct {
	ExitCode int    `json:"exitCode"`
	Stderr   string `json:"stderr"`
}

type commandExecParams struct {
	Command   []string `json:"command"`
	Cwd       string   `json:"cwd"`
	TimeoutMs int64    `json:"timeoutMs"`
}

// RunCommand makes codex run a command, which codex kills after limit, in the sandbox of its configuration, without a
// thread. If codex cannot set up the sandbox, the result is from its sandbox helper, or is an *rpc.Error.
func (c *Conn) RunCommand(ctx context.Context, command []string, limit time.Duration) (r CommandResult, err error) {
	params := commandExecParams{Command: command, Cwd: "/", TimeoutMs: limit.Milliseconds()}
	if err := c.Call(ctx, "command/exec", params, &r); err != nil {
		return r, fmt.Errorf("cannot run a command: %w", err)
	}
	return r, nil
}

package remotes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
	"codex-proxy/test/bed"
)

// reboot boots a machine with a disk again: after a shutdown, or as after a power cut.
func reboot(b *bed.Bed, shutdown bool) {
	b.T.Helper()
	if shutdown {
		_, _, _ = b.Run(b.T.Context(), "systemctl", "--no-block", "poweroff") // which may end it
		select {
		case <-b.Done():
		case <-time.After(bed.Bound):
			require.Fail(b.T, "the machine does not shut down")
		}
	}
	require.NoError(b.T, b.Close())
	down(b.Endpoint)
	b.Boot()
	require.NoError(b.T, up(b.Endpoint))
}

// person is a client who is attached.
type person struct {
	*rpc.Conn
	bed.Remote
	notes    chan rpc.Message
	thread   string        // of shell
	commands int           // that were run there
	seen     []string      // the warnings among the notifications that until has passed
	ended    chan struct{} // closed at the end of the connection
}

// attach connects to the people's socket, which starts the remote.
func attach(r bed.Remote) *person {
	r.T.Helper()
	return attachAt(r, fmt.Sprintf("/proc/%d/root/run/codex-remote/%s.sock", r.PID(), r.Name))
}

// attachAt connects to another socket that leads to the remote.
func attachAt(r bed.Remote, path string) *person {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), bed.Bound)
	defer cancel()
	p := &person{Remote: r, notes: make(chan rpc.Message, 10_000), ended: make(chan struct{})}
	conn, err := rpc.Dial(ctx, path, rpc.Options{OnNotification: func(m rpc.Message) {
		m.Params = append(json.RawMessage(nil), m.Params...)
		p.notes <- m
	}})
	require.NoError(r.T, err, r.MustRun(r.T, "systemctl", "status", "--no-pager", "-l", r.Socket))
	p.Conn = conn
	go func() { defer close(p.ended); _ = conn.Run(context.Background()) }()
	r.T.Cleanup(func() { conn.Close(nil); <-p.ended })
	p.call("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "tester", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	require.NoError(r.T, conn.Notify(ctx, "initialized", nil))
	return p
}

func (p *person) call(method string, params, reply any) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.T.Context(), bed.Bound)
	defer cancel()
	require.NoError(p.T, p.Call(ctx, method, params, reply), method)
}

// say starts a turn in a new thread, or in the given one.
func (p *person) say(thread, text string) string {
	p.T.Helper()
	if thread == "" {
		thread = p.newThread()
	}
	p.call("turn/start", map[string]any{"threadId": thread, "input": []any{
		map[string]any{"type": "text", "text": text, "text_elements": []any{}}}}, nil)
	return thread
}

func (p *person) newThread() string {
	p.T.Helper()
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	p.call("thread/start", map[string]any{}, &r)
	return r.Thread.ID
}

// until waits for a notification.
func (p *person) until(method string) json.RawMessage {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.T.Context(), bed.Bound)
	defer cancel()
	for {
		select {
		case m := <-p.notes:
			if m.Method == "warning" {
				p.seen = append(p.seen, string(m.Params))
			}
			if m.Method == method {
				return m.Params
			}
		case <-ctx.Done():
			require.Fail(p.T, "no "+method)
		}
	}
}

// shell runs a script as far as a person can go, without codex's own sandbox, and returns its output.
func (p *person) shell(script string, args ...string) string {
	p.T.Helper()
	mark := p.run(script, args...)
	for { // a command that nobody waits for may end meanwhile
		var done struct {
			Item struct {
				Type    string `json:"type"`
				Command string `json:"command"`
				Output  string `json:"aggregatedOutput"`
			} `json:"item"`
		}
		require.NoError(p.T, json.Unmarshal(p.until("item/completed"), &done))
		if done.Item.Type == "commandExecution" && strings.Contains(done.Item.Command, mark) {
			return strings.TrimSpace(done.Item.Output)
		}
	}
}

// run is shell without a wait for the end. mark is in the command.
func (p *person) run(script string, args ...string) (mark string) {
	p.T.Helper()
	p.commands++
	mark = fmt.Sprintf("command-%d-of-a-person", p.commands)
	if p.thread == "" {
		p.thread = p.newThread()
	}
	for i, arg := range args {
		args[i] = "'" + arg + "'"
	}
	p.call("thread/shellCommand", map[string]any{"threadId": p.thread,
		"command": "set -- " + strings.Join(args, " ") + "\n{ " + script + "\n} 2>&1; : " + mark}, nil)
	return mark
}

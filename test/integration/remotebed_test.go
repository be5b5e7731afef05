package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"codex-proxy/codex/rpc"
	"codex-proxy/units"
)

// remote is a remote on the machine of a bed.
type remote struct {
	*bed
	name, unit, socket, file, home string
}

// remote writes the file of a remote, whose directory it makes for the user if there is none, and opens its sockets.
func (b *bed) remote(name, user, keys string) remote {
	b.t.Helper()
	r := remote{bed: b, name: name, unit: units.Remote(name), socket: units.RemoteSocket(name),
		file: "/etc/codex-proxy/remotes/" + name + ".toml", home: "/var/lib/codex-remote/" + name}
	b.MustRun(b.t, "install", "-d", "-m", "777", "/srv/"+name)
	require.NoError(b.t, b.WriteFile("/etc/codex-proxy/remotes/"+name+".key", []byte("sk-"+name+"-SECRET\n"), 0o600))
	r.write(fmt.Sprintf(`directory = "/srv/%[1]s"
user = %[2]q
model = %[3]q
codex_path = "%[4]s/bin/codex"
%[5]s
[provider]
name = "scripted"
base_url = "http://%[6]s/v1"
key_file = "/etc/codex-proxy/remotes/%[1]s.key"
`, name, user, model, codexDir, keys, modelAddr))
	b.MustRun(b.t, "systemctl", "start", r.socket)
	return r
}

// write replaces the file, and lets systemd read it.
func (r remote) write(text string) {
	r.t.Helper()
	require.NoError(r.t, r.WriteFile(r.file, []byte(text), 0o644))
	r.MustRun(r.t, "systemctl", "daemon-reload")
}

// person is a client who is attached.
type person struct {
	*rpc.Conn
	remote
	notes    chan rpc.Message
	thread   string        // of shell
	commands int           // that were run there
	ended    chan struct{} // closed at the end of the connection
}

// attach connects to the people's socket, which starts the remote.
func (r remote) attach() *person {
	r.t.Helper()
	return r.attachAt(fmt.Sprintf("/proc/%d/root/run/codex-remote/%s.sock", r.PID(), r.name))
}

// attachAt connects to another socket that leads to the remote.
func (r remote) attachAt(path string) *person {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), bound)
	defer cancel()
	p := &person{remote: r, notes: make(chan rpc.Message, 10_000), ended: make(chan struct{})}
	conn, err := rpc.Dial(ctx, path, rpc.Options{OnNotification: func(m rpc.Message) {
		m.Params = append(json.RawMessage(nil), m.Params...)
		p.notes <- m
	}})
	require.NoError(r.t, err, r.MustRun(r.t, "systemctl", "status", "--no-pager", "-l", r.socket))
	p.Conn = conn
	go func() { defer close(p.ended); _ = conn.Run(context.Background()) }()
	r.t.Cleanup(func() { conn.Close(nil); <-p.ended })
	p.call("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "tester", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	require.NoError(r.t, conn.Notify(ctx, "initialized", nil))
	return p
}

func (p *person) call(method string, params, reply any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), bound)
	defer cancel()
	require.NoError(p.t, p.Call(ctx, method, params, reply), method)
}

// say starts a turn in a new thread, or in the given one.
func (p *person) say(thread, text string) string {
	p.t.Helper()
	if thread == "" {
		thread = p.newThread()
	}
	p.call("turn/start", map[string]any{"threadId": thread, "input": []any{
		map[string]any{"type": "text", "text": text, "text_elements": []any{}}}}, nil)
	return thread
}

func (p *person) newThread() string {
	p.t.Helper()
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
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), bound)
	defer cancel()
	for {
		select {
		case m := <-p.notes:
			if m.Method == method {
				return m.Params
			}
		case <-ctx.Done():
			require.Fail(p.t, "no "+method)
		}
	}
}

// shell runs a script as far as a person can go, without codex's own sandbox, and returns its output.
func (p *person) shell(script string, args ...string) string {
	p.t.Helper()
	mark := p.run(script, args...)
	for { // a command that nobody waits for may end meanwhile
		var done struct {
			Item struct {
				Type    string `json:"type"`
				Command string `json:"command"`
				Output  string `json:"aggregatedOutput"`
			} `json:"item"`
		}
		require.NoError(p.t, json.Unmarshal(p.until("item/completed"), &done))
		if done.Item.Type == "commandExecution" && strings.Contains(done.Item.Command, mark) {
			return strings.TrimSpace(done.Item.Output)
		}
	}
}

// run is shell without a wait for the end. mark is in the command.
func (p *person) run(script string, args ...string) (mark string) {
	p.t.Helper()
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

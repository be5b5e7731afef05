package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

// agent is a client of a Server that runs until the test has ended.
type agent struct {
	*mcp.ClientSession
	t        *testing.T
	daemon   *apitest.Daemon
	progress chan *mcp.ProgressNotificationParams
	input    io.Closer  // of the Server
	ended    chan error // likewise
}

func start(t *testing.T, run func(*apitest.Command)) *agent {
	t.Helper()
	a := &agent{
		t: t, daemon: apitest.Start(t, run), progress: make(chan *mcp.ProgressNotificationParams, 1000), ended: make(chan error, 1),
	}
	c := client.New(a.daemon.Socket)
	server := New(Settings{Client: c, Version: "1.2.3", Logger: slog.New(slog.DiscardHandler), Beat: 5 * time.Millisecond})
	fromAgent, toServer := io.Pipe()
	fromServer, toAgent := io.Pipe()
	a.input = toServer
	go func() {
		a.ended <- server.Run(t.Context(), fromAgent, toAgent)
		c.Close()
	}()
	of := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { a.progress <- r.Params },
	})
	session, err := of.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	require.NoError(t, err)
	a.ClientSession = session
	t.Cleanup(func() {
		toServer.Close()
		_ = session.Close() // it is closed already
	})
	return a
}

// try calls a tool, and returns its text and its structured content.
func (a *agent) try(tool string, args map[string]any) (text string, structured map[string]any, isError bool) {
	a.t.Helper()
	r, err := a.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	require.NoError(a.t, err)
	require.Len(a.t, r.Content, 1)
	structured, _ = r.StructuredContent.(map[string]any)
	return r.Content[0].(*mcp.TextContent).Text, structured, r.IsError
}

func (a *agent) call(tool string, args map[string]any) (string, map[string]any) {
	a.t.Helper()
	text, structured, isError := a.try(tool, args)
	require.False(a.t, isError, text)
	return text, structured
}

func succeed(c *apitest.Command) {
	c.End(outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."})
}

func fail(c *apitest.Command, status int) {
	c.End(outcome.Outcome{Word: outcome.Failed, Status: status, ExitStatus: status, Text: fmt.Sprintf("The command failed with status %d.", status)})
}

func TestTools(t *testing.T) {
	a := start(t, succeed)
	list, err := a.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var readable, destructive []string
	for _, tool := range list.Tools {
		assert.NotEmpty(t, tool.Title)
		assert.NotNil(t, tool.OutputSchema)
		if tool.Annotations.ReadOnlyHint {
			readable = append(readable, tool.Name)
		} else if *tool.Annotations.DestructiveHint {
			destructive = append(destructive, tool.Name)
		}
	}
	assert.Equal(t, []string{"artifact", "artifacts", "logs", "sessions", "show"}, readable)
	assert.Equal(t, []string{"cancel", "run"}, destructive)
	assert.Len(t, list.Tools, 8)
	info := a.InitializeResult()
	assert.Equal(t, "1.2.3", info.ServerInfo.Version)
	assert.Contains(t, info.Instructions, "run makes a session")
}

// A session goes over several calls, with every parameter on its way.
func TestSession(t *testing.T) {
	var of wire.NewSession
	a := start(t, func(c *apitest.Command) {
		of = c.Of
		c.Write(logs.Stdout, "out\n")
		c.Write(logs.Stderr, "err\n")
		if c.Number == 1 {
			fail(c, 3)
			return
		}
		c.Write(logs.Stdout, string(c.Stdin()))
		c.Keep(wire.Artifact{Path: "out/a.xml", Kind: "junit", SHA256: strings.Repeat("0", 64)}, "<testsuite/>")
		succeed(c)
	})
	text, got := a.call("run", map[string]any{
		"command": []string{"make", "test"}, "repository": "https://example.org/a.git", "ref": "main", "patch": "diff",
		"environment": "setup", "setup": "run = 'x'", "network": true, "directory": "src", "env": map[string]any{"A": "b"}, "artifacts": []string{"*.xml"},
		"timeout": "10m", "grace": "2s", "cpus": 1.5, "memory": "2G", "tasks": 99, "output_limit": "1M", "file_size": "2M", "disk": "3M",
	})
	asked, err := json.Marshal(of)
	require.NoError(t, err)
	assert.JSONEq(t, `{"repository":"https://example.org/a.git","ref":"main","patch":"diff","environment":"setup","setup":"run = 'x'","network":true,
		"commands":[{"args":["make","test"],"directory":"src","env":{"A":"b"},"artifacts":["*.xml"],
		"limits":{"timeout":"10m0s","grace":"2s","cpus":1.5,"memory":2147483648,"tasks":99,"output":1048576,
		"file_size":2097152,"disk":3145728}}]}`, string(asked))
	id := got["session"].(string)
	assert.Equal(t, fmt.Sprintf("The command failed with status 3.\nsession %s, command 1: make test\nOutput (8 bytes):\nout\nerr\n", id), text)
	assert.Equal(t, map[string]any{
		"session": id, "command": 1.0, "line": "make test", "state": "ended", "seconds": 1.5, "output": "out\nerr\n",
		"output_from": 0.0, "next_offset": 8.0, "output_bytes": 8.0,
		"outcome": map[string]any{"outcome": "failed", "status": 3.0, "exit_status": 3.0, "text": "The command failed with status 3."},
	}, got)

	text, got = a.call("run", map[string]any{"command": []string{"cat"}, "session": id, "stdin": "in\n"})
	assert.Equal(t, "out\nerr\nin\n", got["output"], text)
	text, _ = a.call("show", map[string]any{"session": id})
	assert.Contains(t, text, "1. make test: The command failed with status 3.\n2. cat: The command succeeded.\n")
	text, _ = a.call("sessions", map[string]any{"state": "idle"})
	assert.Contains(t, text, id)
	text, _ = a.call("sessions", map[string]any{"state": "closed"})
	assert.Equal(t, "There is no session.", text)

	_, got = a.call("logs", map[string]any{"session": id, "command": 1, "since_offset": 4})
	assert.Equal(t, []any{"err\n", 4.0, 8.0}, []any{got["output"], got["output_from"], got["next_offset"]})
	text, _ = a.call("artifacts", map[string]any{"session": id})
	assert.Equal(t, "1. out/a.xml (junit, 12 bytes, of command 2)\n", text)
	_, got = a.call("artifact", map[string]any{"session": id, "id": 1, "since_offset": 5})
	assert.Equal(t, []any{"suite/>", 12.0}, []any{got["content"], got["next_offset"]})

	text, _ = a.call("cancel", map[string]any{"session": id})
	assert.Contains(t, text, "The command succeeded.")
	text, _ = a.call("show", map[string]any{"session": id})
	assert.Contains(t, text, ", closed, ")
}

// Files that are in no commit go along if the agent asks for them.
func TestDirty(t *testing.T) {
	ref := ""
	a := start(t, func(c *apitest.Command) {
		ref = c.Of.Ref
		succeed(c)
	})
	dir := t.TempDir()
	require.NoError(t, exec.Command("git", "init", "--quiet", dir).Run())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	in := map[string]any{"command": []string{"a"}, "repository": dir}
	text, _, isError := a.try("run", in)
	assert.True(t, isError)
	assert.Contains(t, text, "has no commit yet")
	in["dirty"] = true
	a.call("run", in)
	assert.Len(t, ref, 40)
}

// Agents write commands as a line, too.
func TestCommandAsLine(t *testing.T) {
	var args []string
	a := start(t, func(c *apitest.Command) {
		args = c.Of.Commands[0].Args
		succeed(c)
	})
	a.call("run", map[string]any{"command": "make && make test"})
	assert.Equal(t, []string{"sh", "-c", "make && make test"}, args)
	for _, command := range []any{"", []string{}, []string{""}} {
		text, _, isError := a.try("run", map[string]any{"command": command})
		assert.True(t, isError)
		assert.Contains(t, text, "command is empty: want the program and its arguments")
	}
}

// The agent reads of the sandbox in the description of run, and of the limits as runner.toml has them.
func TestDescriptionOfTheSandbox(t *testing.T) {
	settings, err := os.ReadFile("../../packaging/runner/runner.toml")
	require.NoError(t, err)
	_, limits, _ := strings.Cut(string(settings), "\n[default]\n")
	words := strings.Join(strings.Fields(runTool.Description), " ")
	for setting, text := range map[string]string{
		`timeout = "30m"`: "30m of time", `memory = "2G"`: "2G of memory", "tasks = 1024": "1024 processes",
		`output = "64M"`: "64M of output",
	} {
		assert.Contains(t, limits, "\n#"+setting+"\n")
		assert.Contains(t, words, text)
	}
	for _, fact := range []string{"/workspace", "HOME", "read-only", "in the background", ".codex-runner.toml"} {
		assert.Contains(t, words, fact)
	}
}

// A patch is the input of the next command.
func TestPatch(t *testing.T) {
	const diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
	a := start(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, string(c.Stdin()))
		succeed(c)
	})
	_, got := a.call("run", map[string]any{"command": []string{"true"}, "close": false})
	id := got["session"]
	_, got = a.call("patch", map[string]any{"session": id, "patch": diff})
	assert.Equal(t, []any{diff, 2.0}, []any{got["output"], got["command"]})
	text, _, isError := a.try("patch", map[string]any{"session": id, "patch": "--- /dev/null\n+++ b/../../f\n@@ -0,0 +1 @@\n+b\n"})
	assert.True(t, isError)
	assert.Contains(t, text, "it is outside of the tree")
	_, got = a.call("show", map[string]any{"session": id})
	assert.Len(t, got["commands"], 2, "what is refused starts nothing")
}

// A command that goes on is followed over several calls, with its progress.
func TestWait(t *testing.T) {
	wrote, step := make(chan struct{}), make(chan struct{})
	a := start(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "one\n")
		close(wrote)
		<-step
		c.Write(logs.Stdout, "two\n")
		succeed(c)
	})
	text, got := a.call("run", map[string]any{"command": []string{"sh"}, "wait": "0s"})
	assert.NotContains(t, got, "outcome")
	assert.Regexp(t, `The command is running; it began [1-9]\d+\.\d s ago\.`, text)
	id := got["session"].(string)
	<-wrote
	text, got = a.call("logs", map[string]any{"session": id})
	assert.Equal(t, []any{"running", "one\n", 4.0}, []any{got["state"], got["output"], got["next_offset"]}, text)
	_, got = a.call("logs", map[string]any{"session": id, "since_offset": 4, "wait": "20ms"})
	assert.Equal(t, []any{"running", "", 4.0}, []any{got["state"], got["output"], got["next_offset"]}, "the time is over first")

	params := &mcp.CallToolParams{Name: "logs", Arguments: map[string]any{"session": id, "since_offset": 4, "wait": "1m"}}
	params.SetProgressToken("token")
	go func() {
		var last float64
		for range 3 {
			note := <-a.progress
			assert.Equal(t, "token", note.ProgressToken)
			assert.Greater(t, note.Progress, last)
			assert.Contains(t, note.Message, "session "+id+", command 1 for 0s")
			last = note.Progress
		}
		close(step)
	}()
	r, err := a.CallTool(t.Context(), params)
	require.NoError(t, err)
	got = r.StructuredContent.(map[string]any)
	assert.Equal(t, []any{"ended", "two\n", 8.0}, []any{got["state"], got["output"], got["next_offset"]})
	assert.Empty(t, a.ended)
}

// An answer has a part of a long output, and logs has any other.
func TestLongOutput(t *testing.T) {
	long := strings.Repeat("0123456789 äöü €\n", 100_000)
	a := start(t, func(c *apitest.Command) {
		for rest := long; rest != ""; { // cuts characters
			n := min(len(rest), 32_767)
			c.Write(logs.Stdout, rest[:n])
			rest = rest[n:]
		}
		succeed(c)
	})
	text, got := a.call("run", map[string]any{"command": []string{"sh"}, "max_output": 1001})
	size := float64(len(long))
	assert.Equal(t, []any{size, size}, []any{got["next_offset"], got["output_bytes"]})
	assert.True(t, strings.HasSuffix(long, got["output"].(string)))
	assert.InDelta(t, 1000, len(got["output"].(string)), 4)
	assert.Contains(t, text, fmt.Sprintf("of %d:\n", len(long)))
	var all strings.Builder
	for next := 0.0; next < size; {
		_, part := a.call("logs", map[string]any{"session": got["session"], "since_offset": next, "max_output": maxOutput})
		all.WriteString(part["output"].(string))
		require.Greater(t, part["next_offset"], next)
		next = part["next_offset"].(float64)
	}
	assert.True(t, all.String() == long)
}

func TestBinaryOutput(t *testing.T) {
	a := start(t, func(c *apitest.Command) {
		c.Write(logs.Stdout, "a\xff\x00\x80b\xe2\x82") // the last two begin a character
		succeed(c)
	})
	_, got := a.call("run", map[string]any{"command": []string{"sh"}})
	assert.Equal(t, "a�\x00�b�", got["output"])
	assert.EqualValues(t, 7, got["next_offset"])
}

// waiting is a command that ends when it is cancelled.
func waiting(began chan<- string) func(*apitest.Command) {
	return func(c *apitest.Command) {
		began <- c.Session
		<-c.Cancelled()
		c.End(outcome.Outcome{Word: outcome.Cancelled, CancelledBy: "alice", ExitStatus: 130, Text: "The command was cancelled by alice."})
	}
}

func TestCancel(t *testing.T) {
	began := make(chan string, 1)
	a := start(t, waiting(began))
	_, got := a.call("run", map[string]any{"command": []string{"sleep", "9"}, "wait": "0s"})
	<-began
	id := got["session"].(string)
	text, got := a.call("cancel", map[string]any{"session": id, "command": 1})
	assert.Contains(t, text, "The command was cancelled by alice.")
	assert.Equal(t, "cancelled", got["outcome"].(map[string]any)["outcome"])
	a.daemon.Await(id, func(s wire.Session) bool { return s.State == wire.SessionIdle })
}

// The end of a call is the end of the command that it waits for.
func TestCancelledCall(t *testing.T) {
	began := make(chan string, 1)
	a := start(t, waiting(began))
	ctx, cancel := context.WithCancel(t.Context())
	var id string
	go func() {
		id = <-began
		cancel()
	}()
	_, err := a.CallTool(ctx, &mcp.CallToolParams{Name: "run", Arguments: map[string]any{"command": []string{"sleep", "9"}}})
	require.ErrorIs(t, err, context.Canceled)
	a.daemon.Await(id, func(s wire.Session) bool { return s.State == wire.SessionClosed && s.Commands[0].Outcome != nil })

	_, got := a.call("run", map[string]any{"command": []string{"sleep", "9"}, "wait": "0s"})
	id = <-began
	cancelled, stop := context.WithCancel(t.Context())
	go func() {
		<-a.progress
		stop()
	}()
	params := &mcp.CallToolParams{Name: "logs", Arguments: map[string]any{"session": got["session"], "wait": "1m"}}
	params.SetProgressToken(1)
	_, err = a.CallTool(cancelled, params)
	require.ErrorIs(t, err, context.Canceled)
	_, got = a.call("logs", map[string]any{"session": id})
	assert.Equal(t, "running", got["state"], "logs only looks")
}

// The agent goes away: what it waits for ends, and the rest goes on.
func TestAgentEnds(t *testing.T) {
	began := make(chan string, 2)
	a := start(t, waiting(began))
	a.call("run", map[string]any{"command": []string{"sleep", "9"}, "wait": "0s"})
	detached := <-began
	called := make(chan struct{})
	go func() {
		defer close(called)
		_, _ = a.CallTool(t.Context(), &mcp.CallToolParams{Name: "run", Arguments: map[string]any{"command": []string{"sleep", "9"}}})
	}()
	attended := <-began
	require.NoError(t, a.input.Close())
	require.NoError(t, <-a.ended)
	require.NoError(t, a.Close())
	<-called
	a.daemon.Await(attended, func(s wire.Session) bool { return s.State == wire.SessionClosed })
	a.daemon.Await(detached, func(s wire.Session) bool { return s.State == wire.SessionActive })
}

func TestRefusals(t *testing.T) {
	a := start(t, succeed)
	_, got := a.call("run", map[string]any{"command": []string{"true"}, "close": true})
	id := got["session"].(string)
	a.daemon.Await(id, func(s wire.Session) bool { return s.State == wire.SessionClosed })
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, tc := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"run", map[string]any{"command": []string{}}, "command is empty: want the program and its arguments"},
		{"run", map[string]any{"command": []string{"a"}, "wait": "9"}, `wait="9": want a time with its unit`},
		{"run", map[string]any{"command": []string{"a"}, "max_output": 1}, "max_output=1: want 256 to 262144 bytes"},
		{"run", map[string]any{"command": []string{"a"}, "memory": "2GB"}, `memory="2GB": want a positive number of bytes, such as`},
		{"run", map[string]any{"command": []string{"a"}, "ref": "x"}, "ref, patch and dirty are of a repository: name it, too"},
		{"run", map[string]any{"command": []string{"a"}, "repository": "/", "ref": "x", "dirty": true}, "leave it or ref out"},
		{"run", map[string]any{"command": []string{"a"}, "repository": "https://example.org/a", "dirty": true}, "only a directory with a work tree has changes"},
		{"run", map[string]any{"command": []string{"a"}, "session": id, "dirty": true}, "dirty is of a new session"},
		{"run", map[string]any{"command": []string{"a"}, "session": id, "network": true}, "network is of a new session"},
		{"run", map[string]any{"command": []string{"a"}, "session": "x"}, `"x" is no session: an ID has 16 characters`},
		{"run", map[string]any{"command": []string{"a"}, "repository": "/nowhere"}, "repository /nowhere is neither a URL nor a directory"},
		{"run", map[string]any{"command": []string{"a"}, "repository": file}, "name the top directory of a repository"},
		{"run", map[string]any{"command": []string{"a"}, "repository": t.TempDir()}, "is no git repository that this user can read"},
		{"run", map[string]any{"command": []string{"a"}, "colour": 1}, `unexpected additional properties ["colour"]`},
		{"run", map[string]any{"command": []string{"a"}, "session": id}, "is closed: run the command in a new session"},
		{"logs", map[string]any{"session": "aaaaaaaaaaaaaaaz"}, "there is no session aaaaaaaaaaaaaaaz: list yours with"},
		{"logs", map[string]any{"session": id, "command": 7}, "has no command 7: it has 1 to 1"},
		{"logs", map[string]any{"session": id, "since_offset": -1}, "since_offset is negative"},
		{"patch", map[string]any{"session": id, "patch": "x"}, "it changes no file"},
		{"artifact", map[string]any{"session": id, "id": 7}, "has no artifact 7: artifacts lists those that it has"},
		{"sessions", map[string]any{"state": "gone"}, `state="gone": want active, idle or closed`},
	} {
		text, _, isError := a.try(tc.tool, tc.args)
		assert.True(t, isError, "%v", tc)
		assert.Contains(t, text, tc.want)
	}
	_, got = a.call("sessions", nil)
	assert.Len(t, got["sessions"], 1, "nothing was started")
	a.daemon.Down()
	text, _, isError := a.try("run", map[string]any{"command": []string{"a"}})
	assert.True(t, isError)
	assert.Contains(t, text, "codex-runner is not running: mend what `systemctl status codex-runner` says")
}

package remoteexec

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/remotes/mainprocess"
	"codex-proxy/test/modelserver"
)

// A turn runs by a key that neither codex nor a command of a person can find.
func TestTurnByALentKey(t *testing.T) {
	for _, network := range []string{"all", "none"} {
		t.Run(network, func(t *testing.T) {
			b := newBed(t, fmt.Sprintf("network = %q", network))
			b.start()
			require.NoError(t, b.models.Script("text by a lent key"))
			c := b.attach()
			assert.Contains(t, c.turn("hi"), "by a lent key")
			assert.Equal(t, "Bearer "+secret, b.sent.last())
			assert.Empty(t, c.shell(`grep -rsl 'sk-SECRE[T]' /proc/[0-9]*/environ /proc/[0-9]*/cmdline "$1/home" "$1/run"`,
				b.dir))
			assert.Contains(t, c.shell(`cat "$1"`, b.dir+"/key"), "Permission denied")
			assert.Equal(t, "ok", c.shell(`cat /proc/self/fd/0; touch made && echo ok`))
			assert.FileExists(t, b.dir+"/work/made")
		})
	}
}

// No path leads to codex's socket but that of the people.
func TestSocketHasNoName(t *testing.T) {
	b := newBed(t, "")
	b.start()
	c := b.attach()
	found := c.shell(`find "$1/run" /tmp/codex-daemon-* "$1/home" -type s -o -name app-server.sock`, b.dir)
	assert.NotContains(t, found, "app-server.sock")
	assert.NotRegexp(t, `(?m)^/tmp/codex-daemon`, found)
	assert.Empty(t, c.shell(`ls "$1/home/keeper"`, b.dir), "the turn journal")
}

// A fault of the file is the status of the unit, and ends it for good.
func TestFaultsOfTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"directry = \"x\"":            `build.toml:4: unknown key "directry"`,
		"writable = [\"/nowhere\"]":   `writable: there is no directory /nowhere: make it`,
		"user = \"root\"":             `user: a remote does not run as root`,
		"[codex]\nnot_a_key = 1\n[x]": `unknown key "x"`,
	} {
		b := newBed(t, text)
		b.listen()
		waiting, err := net.Dial("unix", b.people)
		require.NoError(t, err)
		defer waiting.Close()
		_, err = waiting.Write([]byte("GET /keeper/status HTTP/1.1\r\nHost: remote\r\n\r\n"))
		require.NoError(t, err)
		b.run()
		assert.Contains(t, b.until("Not started"), want)
		answer, err := http.ReadResponse(bufio.NewReader(waiting), nil)
		require.NoError(t, err, "who waits reads the reason")
		var body struct{ Error string }
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
		assert.Contains(t, body.Error, want)
		<-b.ended
		assert.Equal(t, 78, b.cmd.ProcessState.ExitCode(), text)
	}
}

// A stop in mid-turn is no failure, though codex has to be killed.
func TestStopInMidTurn(t *testing.T) {
	b := newBed(t, "")
	b.start()
	require.NoError(t, b.models.Script("text one", "gate never"))
	c := b.attach()
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	require.NoError(t, c.Call(b.bound(), "thread/start", map[string]any{}, &r))
	require.NoError(t, c.Call(b.bound(), "turn/start", map[string]any{"threadId": r.Thread.ID, "input": []any{
		map[string]any{"type": "text", "text": "go", "text_elements": []any{}}}}, nil))
	_, err := b.models.Wait(b.bound(), modelserver.AtGate("never", 1))
	require.NoError(t, err)
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGTERM))
	b.until("STATUS=Stopped")
	<-b.ended
	assert.Zero(t, b.cmd.ProcessState.ExitCode())
}

func TestDirectoryOfAnother(t *testing.T) {
	b := newBed(t, "")
	require.NoError(t, os.Chown(b.dir+"/work", 0, 0))
	require.NoError(t, os.Chmod(b.dir+"/work", 0o755))
	b.run()
	assert.Contains(t, b.until("Not started"), fmt.Sprintf("directory: the user %d may not write to %s/work", someone, b.dir))
	<-b.ended
}

// The end of codex by a signal is that of the unit.
func TestKilledCodex(t *testing.T) {
	b := newBed(t, "")
	b.start()
	c := b.attach()
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	_ = c.Call(b.bound(), "thread/start", map[string]any{}, &r)
	_ = c.Call(b.bound(), "thread/shellCommand", map[string]any{"threadId": r.Thread.ID, "command": "kill -9 $PPID"}, nil)
	<-b.ended
	assert.Equal(t, syscall.SIGKILL, b.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// The turn of a client that leaves as soon as codex has its message runs on, also if it leaves the thread first, as the
// TUI does at its end.
func TestTurnOfAClientThatLeaves(t *testing.T) {
	b := newBed(t, "")
	b.start()
	for n := range 6 {
		word := fmt.Sprint("question-", n)
		require.NoError(t, b.models.Add(modelserver.Script{Word: word, Steps: []string{"text so ", "gate " + word, "text answered"}}))
		c := b.attach()
		thread := c.startTurn(word)
		if n%2 == 0 {
			require.NoError(t, c.Call(b.bound(), "thread/unsubscribe", map[string]any{"threadId": thread}, nil))
		}
		c.Close(nil)
		b.status("it has left, and the turn has not", func(st remotes.Status) bool {
			return len(st.Attached) == 0 && len(st.Turns) == 1
		})
		b.models.Release(word)
		require.Eventually(t, func() bool { return strings.Count(b.log.String(), `"status":"completed"`) == n+1 }, patience,
			10*time.Millisecond, "the turn does not end by itself")
	}
}

// Nobody is attached, and nothing runs: the status is the one after which systemd does not restart.
func TestIdleStop(t *testing.T) {
	b := newBed(t, "idle_stop = \"10s\"")
	b.start()
	<-b.ended
	assert.Equal(t, mainprocess.ExitResting, b.cmd.ProcessState.ExitCode())
	unit, err := os.ReadFile("../../packaging/systemd/codex-remote@.service")
	require.NoError(t, err)
	for _, key := range []string{"SuccessExitStatus", "RestartPreventExitStatus"} {
		assert.Contains(t, string(unit), fmt.Sprintf("\n%s=%d", key, mainprocess.ExitResting))
	}
}

// With unknown_methods = "read" the start reads the schema of codex before it runs, and keeps what it has found where no
// tool can write. A request that is in no schema is refused, and named.
func TestUnknownMethods(t *testing.T) {
	b := newBed(t, `unknown_methods = "read"`)
	b.start()
	kept, err := os.ReadFile(b.dir + "/home/keeper/reads.json")
	require.NoError(t, err)
	assert.Contains(t, string(kept), `"thread/timeline/list":["cursor","limit","threadId"]`)
	assert.NotContains(t, string(kept), `"thread/start"`)
	assert.NoDirExists(t, b.dir+"/home/keeper/schema.new")
	c := b.attach()
	assert.ErrorContains(t, c.Call(b.bound(), "thread/new/list", map[string]any{}, nil), `"thread/new/list" is refused: codex-proxy test `+
		`knows the requests of codex`)
	b.status("it names the request", func(st remotes.Status) bool { return len(st.Unknown) == 1 && st.Unknown[0] == "thread/new/list" })
	assert.Contains(t, b.log.String(), "a client sent a request that is not known here")
	assert.Empty(t, c.shell(`cat "$1/home/keeper/reads.json" 2>&-`, b.dir))
}

// codex's own sandbox works in the namespaces: the tools of the model write to the directory alone.
func TestSandboxOfCodex(t *testing.T) {
	b := newBed(t, "")
	b.start()
	c := b.attach()
	run := func(script string) (out string, status int) {
		var r struct {
			Stdout   string `json:"stdout"`
			ExitCode int    `json:"exitCode"`
		}
		require.NoError(t, c.Call(b.bound(), "command/exec", map[string]any{
			"command": []string{"/bin/sh", "-c", script, "sh", b.dir}}, &r))
		return r.Stdout, r.ExitCode
	}
	out, status := run("touch made && cat /proc/self/status | grep NoNewPrivs")
	assert.Zero(t, status, out)
	assert.FileExists(t, b.dir+"/work/made")
	_, status = run("touch $1/home/made")
	assert.NotZero(t, status, "its home")
	_, status = run("touch $1/made")
	assert.NotZero(t, status, "elsewhere")
	err := c.Call(b.bound(), "command/exec", map[string]any{"command": []string{"/bin/true"},
		"sandboxPolicy": map[string]any{"type": "dangerFullAccess"}}, nil)
	assert.ErrorContains(t, err, "is not in the allowed set [ReadOnly, WorkspaceWrite] (set by /etc/codex/requirements.toml)")
}

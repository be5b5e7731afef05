package remotes

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// Desktop and mobile clients run codex app-server proxy over ssh. Their turn runs in the unit, with variables of the
// ssh session, outlives the connection, and the next connection finds it.
func TestHereOverSSH(t *testing.T) { bed.EitherSuite(t, testHereOverSSH) }

func testHereOverSSH(t *testing.T, suite string) {
	b := hereBed(t, suite)
	openSSH(b, "alice")
	enableHere(b)
	answer := func(word string, steps ...string) {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: word, Times: -1, Steps: steps}))
	}
	answer("from far away", "text it begins", "gate rest", `call exec_command {"cmd":"env >seen; echo HAS-RUN"}`)
	answer("HAS-RUN", "text and ends")
	far := overSSHProxy(b)
	var thread struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	far.call("thread/start", map[string]any{"cwd": "/home/alice/one", "sandbox": "workspace-write"}, &thread)
	far.say(thread.Thread.ID, "from far away")
	far.until("item/agentMessage/delta")
	assert.Len(t, hereStatus(b).Turns, 1)
	b.MustRun(t, "pkill", "-9", "-x", "ssh")
	<-far.ended
	b.Models.Release("rest")
	untilTurns(b, 0)
	seen := b.MustRun(t, "cat", "/home/alice/one/seen")
	assert.Contains(t, seen, "LC_FROM=afar\n", "a variable that ssh brings")
	assert.NotContains(t, seen, "SSH_CONNECTION")

	far = overSSHProxy(b)
	var resumed struct {
		Thread struct {
			Turns []struct {
				Status string `json:"status"`
			} `json:"turns"`
		} `json:"thread"`
	}
	far.call("thread/resume", map[string]any{"threadId": thread.Thread.ID}, &resumed)
	require.Len(t, resumed.Thread.Turns, 1)
	assert.Equal(t, "completed", resumed.Thread.Turns[0].Status)
}

// overSSHProxy attaches as a desktop client does: it speaks to the standard streams of codex app-server proxy.
func overSSHProxy(b *bed.Bed) *person {
	b.T.Helper()
	path := filepath.Join(b.T.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(b.T, err)
	var running sync.WaitGroup
	b.T.Cleanup(func() { _ = l.Close(); running.Wait() })
	running.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		file, err := conn.(*net.UnixConn).File() //nolint:forcetypeassert // of a unix socket
		if err != nil {
			return
		}
		defer file.Close()
		_ = b.Exec(context.Background(), machine.Exec{Stdin: file, Stdout: file, Stderr: os.Stderr, Args: strings.Fields(
			"ssh -o SetEnv=LC_FROM=afar alice@127.0.0.1 codex app-server proxy")})
	})
	return attachAt(bed.Remote{Bed: b, Name: "alice", Unit: aliceUnit, Socket: "codex-user@alice.socket"}, path)
}

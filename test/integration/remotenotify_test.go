package integration

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
)

// teller is the command of [notify]: it adds the notice, the user and what it sees of the remote's sockets to a file.
const teller = `#!/bin/sh
{ cat; echo "$CODEX_REMOTE_EVENT $CODEX_REMOTE_THREAD $(id -u) $(ls /run/codex-remote 2>/dev/null | wc -l)"; } >>"/srv/$CODEX_REMOTE_NAME/notices"
echo "told of $CODEX_REMOTE_EVENT"
`

// systemd runs the command of [notify] when a turn ends or an approval waits with nobody attached, as the user of the
// remote; with somebody attached it does not. The journal has each event once.
func TestRemoteNotify(t *testing.T) { bothSuites(t, testRemoteNotify) }

func testRemoteNotify(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.MustRun(t, "useradd", "-m", "alice")
	require.NoError(t, b.WriteFile("/usr/local/bin/tell", []byte(teller), 0o755))
	for name, user := range map[string]string{"own": "", "hers": "alice"} {
		r := b.remote(name, user, "")
		file, err := b.ReadFile(r.file)
		require.NoError(t, err)
		r.write(string(file) + "[notify]\ncommand = [\"/usr/local/bin/tell\"]\n")
		p := r.attach()
		thread := p.say("", "watched")
		p.until("turn/completed")

		p.say(thread, "[[text one ]] [[gate alone-"+name+"]] [[text two]]")
		p.until("item/agentMessage/delta")
		p.Close(nil)
		r.untilEvent("remote-detached", 1)
		b.models.Release("alone-" + name)
		n, rest := r.untilNotice(1)
		assert.Equal(t, notice{Remote: name, Event: "turn-ended", At: n.At, Thread: thread, Turn: n.Turn,
			Status: "completed", Text: "one two"}, n)
		uid := trim(b.MustRun(t, "stat", "-L", "-c", "%u", r.home))
		assert.Equal(t, "turn-ended "+thread+" "+uid+" 0", rest)
		assert.NotContains(t, b.show(units.RemoteNotify(name), "Result")["Result"], "fail")

		p = r.attach()
		p.call("thread/resume", map[string]any{"threadId": thread}, nil)
		p.call("turn/start", map[string]any{"threadId": thread, "approvalPolicy": "untrusted", "input": []any{
			map[string]any{"type": "text", "text": "[[gate ask-" + name + `]] [[call exec_command {"cmd":"touch made"}]]`,
				"text_elements": []any{}}}}, nil)
		p.until("turn/started")
		p.Close(nil)
		r.untilEvent("remote-detached", 2)
		b.models.Release("ask-" + name)
		n, _ = r.untilNotice(2)
		assert.Equal(t, "approval-waiting", n.Event)
		assert.Equal(t, thread, n.Thread)
		assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "waits for a person since ")

		r.untilEvent("remote-approval-waits", 1)
		entry := b.entries(t, "CODEX_EVENT=remote-attached", "CODEX_REMOTE="+name)[0]
		assert.Equal(t, "root", entry["CODEX_USER"])
		assert.Len(t, b.entries(t, "CODEX_EVENT=remote-attached", "CODEX_REMOTE="+name, "CODEX_USER=root"), 2)
		assert.Len(t, b.entries(t, "CODEX_EVENT=remote-turn-ended", "CODEX_REMOTE="+name, "CODEX_THREAD_ID="+thread), 2)
		logs := b.MustRun(t, "codex-proxy", "remotes", "logs", name)
		assert.NotContains(t, logs, "one two", "the words of the model are not logged")
	}
	// The service waits for further notices for a moment, and then costs nothing.
	require.Eventually(t, func() bool {
		return b.show(units.RemoteNotify("own"), "ActiveState")["ActiveState"] == "inactive"
	}, bound, 100*time.Millisecond)
	b.MustRun(t, "systemctl", "stop", units.RemoteSocket("own"))
	assert.Equal(t, "inactive", b.show(units.RemoteNotifySocket("own"), "ActiveState")["ActiveState"])
	b.MustRun(t, "sh", "-c", "! test -e /run/codex-remote/own.notify.sock")
}

// notice is what the command of [notify] reads.
type notice struct {
	Remote, Event        string
	At                   time.Time
	Thread, Turn, Status string
	Text                 string
}

// untilNotice waits for the notice of that number, and returns it with the line that follows.
func (r remote) untilNotice(number int) (n notice, line string) {
	r.t.Helper()
	var text []byte
	require.Eventually(r.t, func() (is bool) {
		text, _ = r.ReadFile("/srv/" + r.name + "/notices")
		return strings.Count(string(text), "\n") >= 2*number
	}, bound, 20*time.Millisecond, r.unit)
	lines := strings.Split(string(text), "\n")
	require.NoError(r.t, json.Unmarshal([]byte(lines[2*number-2]), &n), string(text))
	return n, lines[2*number-1]
}

// untilEvent waits until the journal has an event of the remote so often.
func (r remote) untilEvent(event string, times int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		return len(r.entries(r.t, "CODEX_EVENT="+event, "CODEX_REMOTE="+r.name)) >= times
	}, bound, 50*time.Millisecond, event)
	assert.Len(r.t, r.entries(r.t, "CODEX_EVENT="+event, "CODEX_REMOTE="+r.name), times)
}

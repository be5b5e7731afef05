package remotes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/units"
)

// teller is the command of [notify]: it adds the notice, the user and what it sees of the remote's sockets to a file.
const teller = `#!/bin/sh
{ cat; echo "$CODEX_REMOTE_EVENT $CODEX_REMOTE_THREAD $(id -u) $(ls /run/codex-remote 2>/dev/null | wc -l)"; } >>"/srv/$CODEX_REMOTE_NAME/notices"
echo "told of $CODEX_REMOTE_EVENT"
`

// systemd runs the command of [notify] when a turn ends or an approval waits with nobody attached, as the user of the
// remote; with somebody attached it does not. The journal has each event once.
func TestRemoteNotify(t *testing.T) { bed.EitherSuite(t, testRemoteNotify) }

func testRemoteNotify(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "useradd", "-m", "alice")
	require.NoError(t, b.WriteFile("/usr/local/bin/tell", []byte(teller), 0o755))
	for name, user := range map[string]string{"own": "", "hers": "alice"} {
		r := bed.NewRemote(b, name, user, "")
		file, err := b.ReadFile(r.File)
		require.NoError(t, err)
		r.Write(string(file) + "[notify]\ncommand = [\"/usr/local/bin/tell\"]\n")
		p := attach(r)
		thread := p.say("", "watched")
		p.until("turn/completed")

		p.say(thread, "[[text one ]] [[gate alone-"+name+"]] [[text two]]")
		p.until("item/agentMessage/delta")
		p.Close(nil)
		untilEvent(r, "remote-detached", 1)
		b.Models.Release("alone-" + name)
		n, rest := untilNotice(r, 1)
		assert.Equal(t, notice{Remote: name, Event: "turn-ended", At: n.At, Thread: thread, Turn: n.Turn,
			Status: "completed", Text: "one two"}, n)
		uid := bed.Trim(b.MustRun(t, "stat", "-L", "-c", "%u", r.Home))
		assert.Equal(t, "turn-ended "+thread+" "+uid+" 0", rest)
		assert.NotContains(t, b.Properties(units.RemoteNotify(name), "Result")["Result"], "fail")

		p = attach(r)
		p.call("thread/resume", map[string]any{"threadId": thread}, nil)
		p.call("turn/start", map[string]any{"threadId": thread, "approvalPolicy": "untrusted", "input": []any{
			map[string]any{"type": "text", "text": "[[gate ask-" + name + `]] [[call exec_command {"cmd":"touch made"}]]`,
				"text_elements": []any{}}}}, nil)
		p.until("turn/started")
		p.Close(nil)
		untilEvent(r, "remote-detached", 2)
		b.Models.Release("ask-" + name)
		n, _ = untilNotice(r, 2)
		assert.Equal(t, "approval-waiting", n.Event)
		assert.Equal(t, thread, n.Thread)
		assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "waits for a person since ")

		untilEvent(r, "remote-approval-waits", 1)
		entry := b.Entries(t, "CODEX_EVENT=remote-attached", "CODEX_REMOTE="+name)[0]
		assert.Equal(t, "root", entry["CODEX_USER"])
		assert.Len(t, b.Entries(t, "CODEX_EVENT=remote-attached", "CODEX_REMOTE="+name, "CODEX_USER=root"), 2)
		assert.Len(t, b.Entries(t, "CODEX_EVENT=remote-turn-ended", "CODEX_REMOTE="+name, "CODEX_THREAD_ID="+thread), 2)
		logs := b.MustRun(t, "codex-proxy", "remotes", "logs", name)
		assert.NotContains(t, logs, "one two", "the words of the model are not logged")
	}
	// The service waits for further notices for a moment, and then costs nothing.
	await.True(t, func() bool {
		return b.Properties(units.RemoteNotify("own"), "ActiveState")["ActiveState"] == "inactive"
	}, bed.Bound)
	b.MustRun(t, "systemctl", "stop", units.RemoteSocket("own"))
	assert.Equal(t, "inactive", b.Properties(units.RemoteNotifySocket("own"), "ActiveState")["ActiveState"])
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
func untilNotice(r bed.Remote, number int) (n notice, line string) {
	r.T.Helper()
	var text []byte
	await.True(r.T, func() (is bool) {
		text, _ = r.ReadFile("/srv/" + r.Name + "/notices")
		return strings.Count(string(text), "\n") >= 2*number
	}, bed.Bound, r.Unit)
	lines := strings.Split(string(text), "\n")
	require.NoError(r.T, json.Unmarshal([]byte(lines[2*number-2]), &n), string(text))
	return n, lines[2*number-1]
}

// untilEvent waits until the journal has an event of the remote so often.
func untilEvent(r bed.Remote, event string, times int) {
	r.T.Helper()
	await.True(r.T, func() bool {
		return len(r.Entries(r.T, "CODEX_EVENT="+event, "CODEX_REMOTE="+r.Name)) >= times
	}, bed.Bound, event)
	assert.Len(r.T, r.Entries(r.T, "CODEX_EVENT="+event, "CODEX_REMOTE="+r.Name), times)
}

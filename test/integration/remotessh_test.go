package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// people is a Debian with what persons reach a remote by.
func people(suite string) machine.Root { return machine.Debian(suite, "openssh-server", "tmux") }

// peopleBed is a machine that its users alice, bob and carol reach over ssh, where root's key opens their accounts. bob
// is in the group builders.
func peopleBed(t *testing.T, suite string) *bed {
	t.Helper()
	b := bootBed(t, people(suite))
	b.install(realWorker, "")
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	b.MustRun(t, "sh", "-ec", `groupadd builders
install -d -m 700 /root/.ssh
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
for user in alice bob carol; do
	useradd -m -s /bin/sh "$user"
	install -d -o "$user" -m 700 "/home/$user/.ssh"
	install -o "$user" -m 600 /root/.ssh/id_ed25519.pub "/home/$user/.ssh/authorized_keys"
done
usermod -aG builders bob
rm -f /run/nologin # as systemd-user-sessions.service does, which the machine has not
systemctl start ssh
printf 'StrictHostKeyChecking accept-new\n' >/root/.ssh/config`)
	return b
}

// overSSH attaches a user, in a terminal.
func (b *bed) overSSH(name, user string, words ...string) *terminal {
	return b.terminal(name, append([]string{"ssh", "-t", user + "@127.0.0.1", "codex-proxy", "attach"}, words...)...)
}

// attached waits until that many are attached to the only remote.
func (b *bed) attached(n int) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); ; pause(b.t.Context(), 50*time.Millisecond) {
		var list struct {
			Remotes []struct {
				Attached []json.RawMessage `json:"attached"`
			} `json:"remotes"`
		}
		out := b.MustRun(b.t, "codex-proxy", "remotes", "list", "--json")
		require.NoError(b.t, json.Unmarshal([]byte(out), &list), out)
		if len(list.Remotes[0].Attached) == n {
			return
		}
		require.True(b.t, time.Now().Before(deadline), out)
	}
}

// visible is what a terminal shows now.
func (t *terminal) visible() string { return t.tmux("capture-pane", "-p", "-J") }

// gone waits until a text has left the screen.
func (t *terminal) gone(text string) {
	t.bed.t.Helper()
	for deadline := time.Now().Add(bound); strings.Contains(t.visible(), text); pause(t.bed.t.Context(), 100*time.Millisecond) {
		require.True(t.bed.t, time.Now().Before(deadline), t.visible())
	}
}

// approve says yes until the question has gone: a TUI drops keys that come as soon as it asks.
func (t *terminal) approve() {
	t.bed.t.Helper()
	for deadline := time.Now().Add(bound); strings.Contains(t.visible(), approvalQuestion); pause(t.bed.t.Context(), time.Second) {
		require.True(t.bed.t, time.Now().Before(deadline), t.visible())
		t.tmux("send-keys", "-t", t.name, "y")
	}
}

const approvalQuestion = "Would you like to run the following command?"

// A session outlives the ssh connection that it was begun over, in mid-turn. Several people see it live, each of them
// gets its approvals, and the first answer counts. Others are refused, with the way in.
func TestRemoteOverSSH(t *testing.T) { bothSuites(t, testRemoteOverSSH) }

func testRemoteOverSSH(t *testing.T, suite string) {
	b := peopleBed(t, suite)
	b.remote("build", "alice", "group = \"builders\"")
	b.MustRun(t, "chown", "alice", "/srv/build")

	answer := func(message string, times int, steps ...string) { // to the TUI's request for a title, too
		require.NoError(t, b.models.Add(modelserver.Script{Word: message, Times: times, Steps: steps}))
	}
	answer("go ahead", -1, "text the beginning", "gate rest", "text and the end")
	alice := b.overSSH("alice", "alice", "build")
	alice.until("OpenAI Codex")
	alice.enter("go ahead")
	alice.until("the beginning")
	b.MustRun(t, "pkill", "-9", "-x", "ssh")
	b.attached(0)
	b.models.Release("rest")
	alice = b.overSSH("again", "alice", "build")
	screen := alice.until("and the end")
	assert.Contains(t, screen, "go ahead")
	assert.Contains(t, screen, "the beginning")
	assert.NotContains(t, screen, "interrupted")

	out, stderr, err := b.Run(t.Context(), "ssh", "carol@127.0.0.1", "codex-proxy", "attach", "build")
	require.Error(t, err, out)
	assert.Contains(t, stderr, "carol may not attach to the remote build: alice and the members of builders may. "+
		"The way in: usermod -aG builders carol, by root, and a new login")

	bob := b.overSSH("bob", "bob", "build")
	root := b.terminal("root", "codex-proxy", "attach", "build")
	viewer := b.overSSH("viewer", "bob", "--read-only", "build")
	for _, person := range []*terminal{bob, root, viewer} {
		person.until("and the end")
	}
	b.attached(4)
	answer("the second message", 1, `call exec_command {"cmd":"echo once >>/srv/build/ran","sandbox_permissions":`+
		`"require_escalated","justification":"MAY I"}`)
	bob.enter("the second message")
	owners := []*terminal{alice, bob, root}
	for _, person := range append(owners, viewer) {
		person.until("the second message")
	}
	for _, person := range owners {
		person.until(approvalQuestion)
	}
	assert.NotContains(t, viewer.visible(), approvalQuestion)
	assert.NoFileExists(t, fmt.Sprintf("/proc/%d/root/srv/build/ran", b.PID()))
	answer("the second message", -1, "text it has run")
	root.approve()
	for _, person := range append(owners, viewer) {
		person.until("it has run")
		person.gone(approvalQuestion)
	}
	assert.Equal(t, "once\n", b.MustRun(t, "cat", "/srv/build/ran"))
	viewer.enter("a third message")
	viewer.until("only reads")
	assert.NotContains(t, alice.screen(), "a third message")
}

package remotes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/modelserver"
)

// people is a Debian with what persons reach a remote by.
func people(suite string) machine.Root { return machine.Debian(suite, "openssh-server", "tmux") }

// peopleBed is a machine that its users alice, bob and carol reach over ssh, where root's key opens their accounts. bob
// is in the group builders.
func peopleBed(t *testing.T, suite string) *bed.Bed {
	t.Helper()
	b := bed.Boot(t, people(suite))
	b.Install(bed.RealWorker, "")
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	b.MustRun(t, "sh", "-ec", `groupadd builders; for user in alice bob carol; do useradd -m -s /bin/sh "$user"; done
usermod -aG builders bob`)
	openSSH(b, "alice", "bob", "carol")
	return b
}

// openSSH starts sshd, where root's key opens the accounts of users.
func openSSH(b *bed.Bed, users ...string) {
	b.T.Helper()
	b.MustRun(b.T, append([]string{"sh", "-ec", `install -d -m 700 /root/.ssh
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
for user; do
	install -d -o "$user" -m 700 "/home/$user/.ssh"
	install -o "$user" -m 600 /root/.ssh/id_ed25519.pub "/home/$user/.ssh/authorized_keys"
done
rm -f /run/nologin # as systemd-user-sessions.service does, which the machine has not
systemctl start ssh
printf 'StrictHostKeyChecking accept-new\n' >/root/.ssh/config`, "sh"}, users...)...)
}

// overSSH attaches a user, in a terminal.
func overSSH(b *bed.Bed, name, user string, words ...string) *bed.Terminal {
	return bed.NewTerminal(b, name, append([]string{"ssh", "-t", user + "@127.0.0.1", "codex-proxy", "attach"}, words...)...)
}

// attached waits until that many are attached to the only remote.
func attached(b *bed.Bed, n int) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		var list struct {
			Remotes []struct {
				Attached []json.RawMessage `json:"attached"`
			} `json:"remotes"`
		}
		out := b.MustRun(b.T, "codex-proxy", "remotes", "list", "--json")
		require.NoError(b.T, json.Unmarshal([]byte(out), &list), out)
		if len(list.Remotes[0].Attached) == n {
			return
		}
		require.True(b.T, time.Now().Before(deadline), out)
	}
}

// visible is what a terminal shows now.
func visible(t *bed.Terminal) string { return t.Tmux("capture-pane", "-p", "-J") }

// gone waits until a text has left the screen.
func gone(t *bed.Terminal, text string) {
	t.Bed.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); strings.Contains(visible(t), text); pace.Pause(t.Bed.T.Context()) {
		require.True(t.Bed.T, time.Now().Before(deadline), visible(t))
	}
}

// approve says yes until the question has gone: a TUI drops keys that come as soon as it asks.
func approve(t *bed.Terminal) {
	t.Bed.T.Helper()
	for deadline := time.Now().Add(bed.Bound); strings.Contains(visible(t), approvalQuestion); bed.Pause(t.Bed.T.Context(), time.Second) {
		require.True(t.Bed.T, time.Now().Before(deadline), visible(t))
		t.Tmux("send-keys", "-t", t.Name, "y")
	}
}

const approvalQuestion = "Would you like to run the following command?"

// A session outlives the ssh connection that it was begun over, in mid-turn. Several people see it live, each of them
// gets its approvals, and the first answer counts. Others are refused, with the way in.
func TestRemoteOverSSH(t *testing.T) { bed.EitherSuite(t, testRemoteOverSSH) }

func testRemoteOverSSH(t *testing.T, suite string) {
	b := peopleBed(t, suite)
	bed.NewRemote(b, "build", "alice", "group = \"builders\"")
	b.MustRun(t, "chown", "alice", "/srv/build")

	answer := func(message string, times int, steps ...string) { // to the TUI's request for a title, too
		require.NoError(t, b.Models.Add(modelserver.Script{Word: message, Times: times, Steps: steps}))
	}
	answer("go ahead", -1, "text the beginning", "gate rest", "text and the end")
	alice := overSSH(b, "alice", "alice", "build")
	alice.Until("OpenAI Codex")
	alice.Enter("go ahead")
	alice.Until("the beginning")
	b.MustRun(t, "pkill", "-9", "-x", "ssh")
	attached(b, 0)
	b.Models.Release("rest")
	alice = overSSH(b, "again", "alice", "build")
	screen := alice.Until("and the end")
	assert.Contains(t, screen, "go ahead")
	assert.Contains(t, screen, "the beginning")
	assert.NotContains(t, screen, "interrupted")

	out, stderr, err := b.Run(t.Context(), "ssh", "carol@127.0.0.1", "codex-proxy", "attach", "build")
	require.Error(t, err, out)
	assert.Contains(t, stderr, "carol may not attach to the remote build: alice and the members of builders may. "+
		"The way in: usermod -aG builders carol, by root, and a new login")

	bob := overSSH(b, "bob", "bob", "build")
	root := bed.NewTerminal(b, "root", "codex-proxy", "attach", "build")
	viewer := overSSH(b, "viewer", "bob", "--read-only", "build")
	for _, person := range []*bed.Terminal{bob, root, viewer} {
		person.Until("and the end")
	}
	attached(b, 4)
	answer("the second message", 1, `call exec_command {"cmd":"echo once >>/srv/build/ran","sandbox_permissions":`+
		`"require_escalated","justification":"MAY I"}`)
	bob.Enter("the second message")
	owners := []*bed.Terminal{alice, bob, root}
	for _, person := range append(owners, viewer) {
		person.Until("the second message")
	}
	for _, person := range owners {
		person.Until(approvalQuestion)
	}
	assert.NotContains(t, visible(viewer), approvalQuestion)
	assert.NoFileExists(t, fmt.Sprintf("/proc/%d/root/srv/build/ran", b.PID()))
	answer("the second message", -1, "text it has run")
	approve(root)
	for _, person := range append(owners, viewer) {
		person.Until("it has run")
		gone(person, approvalQuestion)
	}
	assert.Equal(t, "once\n", b.MustRun(t, "cat", "/srv/build/ran"))
	viewer.Enter("a third message")
	viewer.Until("only reads")
	assert.NotContains(t, alice.Screen(), "a third message")
}

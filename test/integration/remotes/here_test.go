package remotes

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/codex/versions"
	"codex-proxy/remotes/here/herecli"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/manual"
	"codex-proxy/test/modelserver"
)

// aliceConfig is alice's own configuration of codex.
const aliceConfig = `model = "` + bed.Model + `"
model_provider = "scripted"
check_for_update_on_startup = false
projects."/".trust_level = "trusted"
[tui]
screen_reader_detection_done = true
[model_providers.scripted]
name = "scripted"
base_url = "http://` + bed.ModelAddr + `/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
`

// hereBed is a machine with the users alice and bob, and codex as npm install -g has it.
func hereBed(t *testing.T, suite string) *bed.Bed {
	t.Helper()
	older, err := filepath.EvalSymlinks(filepath.Join(bed.Made(t, "CODEX_PROXY_TEST_CODEX_BETWEEN"),
		fmt.Sprintf("0.%d.0", versions.OldestForHere)))
	require.NoError(t, err)
	b := bed.NewOn(t, people(suite), bed.RealWorker, "",
		machine.Bind{Source: filepath.Dir(filepath.Dir(older)), Target: "/opt/older-codex", ReadOnly: true})
	addAlice(b, aliceConfig)
	return b
}

// addAlice adds the users alice, with that configuration of codex, and bob.
func addAlice(b *bed.Bed, config string) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", `ln -s `+bed.CodexDir+`/bin/codex /usr/local/bin/codex
useradd -m -s /bin/sh alice
useradd -m bob
install -d -o alice -g alice /home/alice/.codex /home/alice/one /home/alice/two
printf 'a note\n' >/home/alice/note`)
	require.NoError(b.T, b.WriteFile("/home/alice/.codex/config.toml", []byte(config), 0o644))
	b.MustRun(b.T, "chown", "-R", "alice:", "/home/alice")
}

// bareCodex is a codex of alice, without any option, in a directory of hers.
func bareCodex(b *bed.Bed, name, program, dir string) *bed.Terminal {
	b.T.Helper()
	return bed.NewTerminal(b, name, "su", "-", "alice", "-c",
		"cd "+dir+" && VIRTUAL_ENV=/venv/"+dir+" SECRET=of-the-shell TERM=screen exec "+program)
}

// tree lists all files of a home with their owners, modes and bytes.
func tree(b *bed.Bed, home string) map[string]string {
	b.T.Helper()
	files := map[string]string{}
	out := b.MustRun(b.T, "sh", "-c", `find "$1" -printf '%p|%u:%g %m %y %l\n'; find "$1" -type f -exec sha256sum {} +`, "sh", home)
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if path, facts, is := strings.Cut(line, "|"); is {
			files[path] += facts
		} else if sum, path, is := strings.Cut(line, "  "); is {
			files[path] += " " + sum
		}
	}
	return files
}

// hereStatus is what here status says of alice.
func hereStatus(b *bed.Bed) herecli.State {
	b.T.Helper()
	var list struct{ Users []herecli.State }
	out := b.MustRun(b.T, "codex-proxy", "here", "status", "--json", "alice")
	require.NoError(b.T, json.Unmarshal([]byte(out), &list), out)
	require.Len(b.T, list.Users, 1)
	return list.Users[0]
}

const (
	aliceUnit    = "codex-user@alice.service"
	aliceControl = "/home/alice/.codex/app-server-control/app-server-control.sock"
)

// A bare codex in any directory runs in the unit of its user, with the directory and the variables of its shell; it
// outlives a kill in mid-turn, wakes the unit, and disable puts the home back.
func TestHere(t *testing.T) { bed.BothSuites(t, testHere) }

func testHere(t *testing.T, suite string) {
	b := hereBed(t, suite)
	before := tree(b, "/home/alice")
	// codex's own daemon, as a bare codex starts it.
	b.MustRun(t, "su", "-", "alice", "-c", "setsid codex app-server --listen unix:// --managed-daemon >/dev/null 2>&1 </dev/null & "+
		"while ! [ -e "+aliceControl+" ]; do sleep 0.05; done")
	said := enableHere(b)
	assert.Contains(t, said, "codex's own daemon and its updater have ended: 1 processes")
	assert.Equal(t, "/run/codex-user/alice.sock", bed.Trim(b.MustRun(t, "readlink", aliceControl)))
	assert.Equal(t, "600 alice", bed.Trim(b.MustRun(t, "stat", "-c", "%a %U", "/run/codex-user/alice.sock")))
	assert.Contains(t, b.MustRun(t, "cat", "/etc/codex/config.toml"), "daemon_auto_start = false")
	_, _, err := b.Run(t.Context(), "setpriv", "--reuid=bob", "--regid=bob", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e",
		`IO::Socket::UNIX->new(Peer => "/run/codex-user/alice.sock") or die $!`)
	assert.Error(t, err, "another user does not attach")

	answer := func(word string, times int, steps ...string) {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: word, Times: times, Steps: steps}))
	}
	terminals := map[string]*bed.Terminal{}
	for dir, program := range map[string]string{"one": "codex", "two": "/opt/older-codex/bin/codex"} {
		answer("look around "+dir, 1, `call exec_command {"cmd":"{ pwd; env; } >seen"}`)
		answer("look around "+dir, -1, "text seen in "+dir)
		terminals[dir] = bareCodex(b, dir, program, dir)
		terminals[dir].Until("Ask Codex")
		terminals[dir].Enter("look around " + dir)
		terminals[dir].Until("seen in " + dir)
		seen := b.MustRun(t, "cat", "/home/alice/"+dir+"/seen")
		assert.Contains(t, seen, "/home/alice/"+dir+"\n")
		assert.Contains(t, seen, "VIRTUAL_ENV=/venv/"+dir+"\n")
		assert.NotContains(t, seen, "of-the-shell", "a variable that is not in the list")
	}
	state := hereStatus(b)
	assert.Len(t, state.Attached, 2)
	assert.Contains(t, state.Attached[0].Program, "codex-tui ")
	assert.Empty(t, state.Faults())

	answer("a long one", -1, "text it begins", "gate rest", `call exec_command {"cmd":"{ echo AGAIN; env; } >>seen"}`)
	answer("echo AGAIN", -1, "text and ends")
	terminals["one"].Enter("a long one")
	terminals["one"].Until("it begins")
	killCodexOf(b)
	b.Models.Release("rest")
	screen := terminals["one"].Until("and ends")
	assert.Contains(t, screen, "seen in one", "the conversation is back")
	assert.NotContains(t, screen, "interrupted")
	untilTurns(b, 0)
	_, again, _ := strings.Cut(b.MustRun(t, "cat", "/home/alice/one/seen"), "AGAIN")
	assert.Contains(t, again, "VIRTUAL_ENV=/venv/one\n", "the turn goes on with the variables of its shell")

	for _, terminal := range terminals {
		terminal.Tmux("kill-server")
	}
	b.MustRun(t, "systemctl", "stop", aliceUnit)
	woken := bareCodex(b, "woken", "codex", "two")
	woken.Until("Ask Codex")
	b.UntilUnit(aliceUnit, "ActiveState", "active")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "here", "logs", "alice"), "ready")

	pid := b.Properties(aliceUnit, "MainPID")["MainPID"]
	b.MustRun(t, "ln", "-sfn", "/opt/older-codex/bin/codex", "/usr/local/bin/codex")
	for deadline := time.Now().Add(bed.Bound); ; bed.Pause(t.Context(), 200*time.Millisecond) {
		now := b.Properties(aliceUnit, "MainPID", "ActiveState")
		if now["MainPID"] != pid && now["ActiveState"] == "active" {
			break
		}
		require.True(t, time.Now().Before(deadline), "the installed codex is not taken")
	}
	untilTurns(b, 0)
	assert.Contains(t, hereStatus(b).Codex, fmt.Sprintf("codex 0.%d.0", versions.OldestForHere))
	woken.Tmux("kill-server")

	b.MustRun(t, "codex-proxy", "here", "disable", "alice")
	putBack(b, before)
}

// enableHere enables as alice does, and returns the words.
func enableHere(b *bed.Bed) string {
	b.T.Helper()
	_, said, err := b.Run(b.T.Context(), "env", "SUDO_USER=alice", "codex-proxy", "here", "enable")
	require.NoError(b.T, err, said)
	return said
}

// killCodexOf kills the codex of alice's unit.
func killCodexOf(b *bed.Bed) {
	b.T.Helper()
	processes, err := b.Processes(aliceUnit)
	require.NoError(b.T, err)
	for _, p := range processes {
		if strings.Contains(p.Command, "app-server --listen") {
			b.Signal(p, unix.SIGKILL)
			return
		}
	}
	require.Fail(b.T, "no codex", "%+v", processes)
}

// untilTurns waits until that many turns run.
func untilTurns(b *bed.Bed, n int) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		state := hereStatus(b)
		if state.Codex != "" && len(state.Turns) == n {
			return
		}
		require.True(b.T, time.Now().Before(deadline), "%+v", state)
	}
}

// putBack asserts that a home is as it was before, but for what codex itself has written, and nothing of ours is left.
func putBack(b *bed.Bed, before map[string]string) {
	b.T.Helper()
	after := tree(b, "/home/alice")
	for path, facts := range before {
		assert.Equal(b.T, facts, after[path], path)
	}
	for path, facts := range after {
		if _, was := before[path]; !was && !strings.HasSuffix(path, "/seen") {
			assert.True(b.T, strings.HasPrefix(path, "/home/alice/.codex/"), path)
			assert.NotContains(b.T, facts, "/run/codex-user", path)
			assert.NotContains(b.T, path, "/packages/", "no copy of codex")
		}
	}
	assert.Empty(b.T, bed.Find(b, "/etc/codex", "/run/codex-user", "/var/lib/codex-user", "-mindepth", "1"))
	assert.Equal(b.T, "inactive", b.Properties("codex-user@alice.socket", "ActiveState")["ActiveState"])
	assert.Equal(b.T, "disabled", b.Properties("codex-user@alice.socket", "UnitFileState")["UnitFileState"])
}

// The other clients of codex reach a user's unit, and a remote by its socket.
func TestClientsOfCodex(t *testing.T) { bed.EitherSuite(t, testClientsOfCodex) }

func testClientsOfCodex(t *testing.T, suite string) {
	b := hereBed(t, suite)
	b.MustRun(t, "install", "-d", "-o", "alice", "/srv/build")
	r := bed.NewRemote(b, "build", "alice", "")
	enableHere(b)
	as := func(command string) string {
		t.Helper()
		out, stderr, err := b.Run(t.Context(), "su", "-", "alice", "-c", "cd one && "+command)
		require.NoError(t, err, "%s\n%s\n%s", command, out, stderr)
		return out
	}
	answer := func(word string) {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: word, Times: -1, Steps: []string{"text the answer to " + word}}))
	}
	for server, socket := range map[string]string{"here": "unix://", "remote": "unix:///run/codex-remote/build.sock"} {
		answer("question to " + server)
		assert.Contains(t, as("codex exec --skip-git-repo-check --remote "+socket+" 'question to "+server+"' </dev/null"),
			"the answer to question to "+server)
	}
	last := hereStatus(b).Last
	require.NotEmpty(t, last, "exec --remote ran in the unit")
	answer("queued here")
	as("codex queue --resume --thread " + last + " --message 'queued here'")
	_, err := b.Models.Wait(t.Context(), func(turns []modelserver.Request) bool {
		return slices.ContainsFunc(turns, func(r modelserver.Request) bool { return strings.Contains(string(r.Body.Raw), "queued here") })
	})
	require.NoError(t, err)
	untilTurns(b, 0)
	untilIdle(b, r)

	overview := bed.NewTerminal(b, "overview", "su", "-", "alice", "-c", "cd one && exec codex agents")
	overview.Until("question to here")
	assert.NotEmpty(t, hereStatus(b).Attached)
	overview.Tmux("kill-server")

	// Desktop clients over ssh run this command, which passes bytes on.
	assert.Contains(t, as(`(printf 'GET /rpc HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`+
		`Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'; sleep 1) | codex app-server proxy`),
		"101 Switching Protocols")

	b.MustRun(t, "codex-proxy", "here", "disable", "alice")
	b.FollowManual(manual.Open(t, "docs/here.md"))
	assert.Empty(t, bed.Find(b, "/etc/codex", "/run/codex-user", "/var/lib/codex-user", "-mindepth", "1"))

	enableHere(b)
	b.MustRun(t, "dpkg", "-r", "codex-proxy")
	_, _, err = b.Run(t.Context(), "test", "-L", aliceControl)
	assert.Error(t, err, "the removal of the package disables")
	for _, gone := range []string{"/etc/codex/config.toml", "/var/lib/codex-here", "/var/lib/codex-user", "/run/codex-user"} {
		_, _, err := b.Run(t.Context(), "test", "-e", gone)
		assert.Error(t, err, gone)
	}
}

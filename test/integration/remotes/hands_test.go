package remotes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/units"
)

// handsBed is a machine with both packages, a repository and a remote with hands.
type handsBed struct {
	bed.Remote
}

// newHands boots a machine with a remote whose commands codex-runner executes.
func newHands(t *testing.T, suite string, packages ...string) handsBed {
	t.Helper()
	return addHands(bootHands(t, suite, machine.Options{}, packages...), "build")
}

// bootHands boots a machine with both packages and a repository.
func bootHands(t *testing.T, suite string, o machine.Options, packages ...string) *bed.Bed {
	t.Helper()
	root := machine.Debian(suite, append([]string{"git"}, packages...)...)
	for _, deb := range []string{"CODEX_PROXY_TEST_DEB", "CODEX_PROXY_TEST_RUNNER_DEB"} {
		root = machine.Installed(root, os.Getenv(deb))
	}
	b := bed.BootWith(t, root, o)
	b.MustRun(t, "systemctl", "enable", "--now", "codex-runner.socket")
	b.MustRun(t, "sh", "-ec", `git init -q -b main /srv/app; cd /srv/app; git config user.name a; git config user.email a@example.org
		echo PROJECT >notes; printf '# the project\n' >AGENTS.md; git add .; git commit -qm first`)
	return b
}

func addHands(b *bed.Bed, name string) handsBed {
	b.T.Helper()
	return addHandsOf(b, name, "/srv/app")
}

// addHandsOf adds a remote whose commands work on a repository.
func addHandsOf(b *bed.Bed, name, repo string) handsBed {
	b.T.Helper()
	h := handsBed{bed.Remote{Bed: b, Name: name, Unit: units.Remote(name), Socket: units.RemoteSocket(name),
		File: "/etc/codex-proxy/remotes/" + name + ".toml", Home: "/var/lib/codex-remote/" + name}}
	key := "/etc/codex-proxy/remotes/" + name + ".key"
	require.NoError(b.T, b.WriteFile(key, []byte("sk-"+name+"-SECRET\n"), 0o600))
	b.MustRun(b.T, "codex-proxy", "remotes", "add", name, "--hands", "runner", "--repo", repo, "--memory", "1G",
		"--model", bed.Model, "--base-url", "http://"+bed.ModelAddr+"/v1", "--key-file", key,
		"--codex-path", filepath.Join(bed.CodexDir, "bin/codex"))
	return h
}

// session is the session of codex-runner, and unit its unit.
func (h handsBed) session() string {
	h.T.Helper()
	text, err := h.ReadFile("/var/lib/private/codex-remote/" + h.Name + "/keeper/hands.json")
	require.NoError(h.T, err)
	var record struct {
		Session string `json:"session"`
	}
	require.NoError(h.T, json.Unmarshal(text, &record))
	return record.Session
}

func (h handsBed) unit() string { return "codex-session@" + h.session() + ".service" }

// command scripts a turn of one command.
func (h handsBed) command(script string) {
	h.T.Helper()
	call, err := json.Marshal(map[string]any{"cmd": script, "login": false, "yield_time_ms": 30000})
	require.NoError(h.T, err)
	require.NoError(h.T, h.Models.Script("call exec_command "+string(call)))
}

// turn has the model run a command, and returns what it reads of that.
func (p *person) turn(h handsBed, thread, script string) string {
	h.T.Helper()
	h.command(script)
	require.NoError(h.T, h.Models.Script("text done"))
	p.say(thread, "run it")
	return p.output()
}

// output is the output of the command of a turn, to whose end it waits.
func (p *person) output() string {
	p.T.Helper()
	for {
		var done struct {
			Item struct {
				Type   string `json:"type"`
				Output string `json:"aggregatedOutput"`
			} `json:"item"`
		}
		require.NoError(p.T, json.Unmarshal(p.until("item/completed"), &done))
		if done.Item.Type == "commandExecution" {
			p.until("turn/completed")
			return strings.TrimSpace(done.Item.Output)
		}
	}
}

// Commands, patches and files of a remote with hands are in its session, and nothing of the project is where codex is.
func TestRemoteHands(t *testing.T) { bed.BothSuites(t, testRemoteHands) }

func testRemoteHands(t *testing.T, suite string) {
	h := newHands(t, suite)
	p := attach(h.Remote)
	thread := p.newThread()
	out := p.turn(h, thread, "id -un; pwd; cat notes; echo made >made")
	assert.Equal(t, "cs-"+h.session()+"\n/workspace\nPROJECT", out)
	assert.Contains(t, h.MustRun(t, "codex-proxy", "remotes", "commands", "build"),
		"thread_id="+thread+" tool_call=call_")
	require.NoError(t, h.Models.Script("custom apply_patch *** Begin Patch\n*** Add File: patched\n+by the brain\n*** End Patch"))
	require.NoError(t, h.Models.Script("text done"))
	p.say(thread, "patch it")
	p.until("turn/completed")
	h.gate(p, thread)
	h.diff()
	h.apart(p, thread)
	h.renewed(p, thread)
}

// gate has a person's requests about commands and files served by the hands.
func (h handsBed) gate(p *person, thread string) {
	t := h.T
	assert.Equal(t, "PROJECT\nby the brain", p.shell("cat notes patched"))
	var ran struct {
		Status int    `json:"exitCode"`
		Stdout string `json:"stdout"`
	}
	p.call("command/exec", map[string]any{"command": []string{"git", "status", "--short"}, "cwd": "/workspace"}, &ran)
	assert.Equal(t, "?? made\n?? patched\n", ran.Stdout)
	var read struct {
		Data []byte `json:"dataBase64"`
	}
	p.call("fs/readFile", map[string]any{"path": "/workspace/notes"}, &read)
	assert.Equal(t, "PROJECT\n", string(read.Data))
	var entries struct {
		Entries []struct {
			Name string `json:"fileName"`
		} `json:"entries"`
	}
	p.call("fs/readDirectory", map[string]any{"path": "/workspace"}, &entries)
	assert.Contains(t, fmt.Sprint(entries), "patched")
	var found struct {
		Files []struct {
			Path string `json:"path"`
		} `json:"files"`
	}
	p.call("fuzzyFileSearch", map[string]any{"query": "ntes", "roots": []string{"/home/me/app"}}, &found)
	assert.Equal(t, "[{notes}]", fmt.Sprint(found.Files))
	p.call("fuzzyFileSearch/sessionStart", map[string]any{"sessionId": "1", "roots": []string{"/workspace"}}, nil)
	p.call("fuzzyFileSearch/sessionUpdate", map[string]any{"sessionId": "1", "query": "patch"}, nil)
	assert.Contains(t, string(p.until("fuzzyFileSearch/sessionUpdated")), `"path":"patched"`)
	for method, params := range map[string]map[string]any{
		"environment/add": {"environmentId": "x", "execServerUrl": "ws://127.0.0.1:1"},
		"thread/start":    {"environments": []any{map[string]any{"environmentId": "local", "cwd": "/"}}},
		"turn/start":      {"threadId": thread, "input": []any{}, "environments": []any{}},
		"command/exec":    {"command": []string{"cat"}, "tty": true, "processId": "1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
		assert.Error(t, p.Call(ctx, method, params, nil), method)
		cancel()
	}
	// A client's own directory and sandbox do not count.
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
		Dir     string `json:"cwd"`
		Sandbox struct {
			Type string `json:"type"`
		} `json:"sandbox"`
	}
	p.call("thread/start", map[string]any{"cwd": "/home/me", "sandbox": "workspace-write", "config": map[string]any{"sandbox_mode": "read-only"}}, &r)
	assert.Equal(t, "/workspace dangerFullAccess", r.Dir+" "+r.Sandbox.Type)
	assert.Equal(t, "/workspace", p.turn(h, r.Thread.ID, "pwd"))
	require.NoError(t, h.Models.Script("text read"))
	p.say(p.thread, "what was there?")
	p.until("turn/completed")
	turns := h.Models.Turns()
	assert.Regexp(t, `<user_shell_command>.*PROJECT`, string(turns[len(turns)-1].Body.Raw), "the model reads what a person ran")
}

// diff takes the changes of the workspace while the hands run, and when they do not.
func (h handsBed) diff() {
	t := h.T
	patch := h.MustRun(t, "codex-proxy", "remotes", "diff", "build")
	assert.Contains(t, patch, "+++ b/patched\n@@ -0,0 +1 @@\n+by the brain\n")
	h.MustRun(t, "codex-proxy", "remotes", "diff", "--branch", "fix", "build")
	assert.Equal(t, "Changes by the remote build\nAGENTS.md\nmade\nnotes\npatched\n",
		h.MustRun(t, "sh", "-c", "git -C /srv/app log -1 --format=%s fix; git -C /srv/app ls-tree --name-only fix"))
}

// codex's own terminal runs the commands of its user, as it would end without an answer to them.
func TestTerminalOfHands(t *testing.T) { bed.EitherSuite(t, testTerminalOfHands) }

func testTerminalOfHands(t *testing.T, suite string) {
	h := newHands(t, suite, "tmux")
	term := bed.NewTerminal(h.Bed, "person", "codex-proxy", "attach", "--codex", bed.CodexDir+"/bin/codex", "build")
	term.Until(bed.Model + " default")                 // before, it has no thread, and drops the command
	term.Tmux("send-keys", "-t", term.Name, "-l", "!") // the terminal shows it apart from the command
	term.Enter("cat notes; id -un")
	term.Until("cs-" + h.session())
	shell := func(command string) {
		term.Tmux("send-keys", "-t", term.Name, "-l", "!")
		term.Enter(command)
	}
	runs := func(process string, is bool) {
		h.T.Helper()
		look := fmt.Sprintf("while pgrep -f '%s' >/dev/null; [ $? -eq %d ]; do sleep 0.05; done", process,
			map[bool]int{true: 1, false: 0}[is])
		h.MustRun(h.T, "timeout", "180", "sh", "-c", look)
	}
	shell("sleep 4321; echo was slept")
	runs("sleep 432[1]", true)
	term.Tmux("send-keys", "-t", term.Name, "Escape")
	runs("sleep 432[1]", false)
	shell("(sleep 5432 &); echo began a server")
	term.Until("began a server")
	require.NoError(h.T, h.Models.Script("text the terminal lives"))
	term.Enter("are you there?")
	term.Until("the terminal lives")

	// In a turn of the model the command is an item of that, and ends with it.
	require.NoError(h.T, h.Models.Script("text it begins", "gate rest", "text and ends"))
	term.Enter("a long one")
	term.Until("it begins")
	shell("echo of the pers''on")
	term.Until("of the person")
	shell("sleep 4321")
	runs("sleep 432[1]", true)
	term.Tmux("send-keys", "-t", term.Name, "Escape")
	runs("sleep 432[1]", false)
	h.Models.Release("rest")
	untilIdle(h.Bed, h.Remote)
	require.NoError(h.T, h.Models.Script("text the terminal goes on"))
	term.Enter("and now?")
	term.Until("the terminal goes on")
	term.Tmux("kill-session", "-t", term.Name)
}

// hidden is a pattern that finds a text, and not itself.
func hidden(text string) string { return text[:4] + "[" + text[4:5] + "]" + text[5:] }

// apart has a tool in the hands look for what is of codex, of the service and of other hands, and looks for the project
// where codex is.
func (h handsBed) apart(p *person, thread string) {
	t := h.T
	other := addHands(h.Bed, "other")
	q := attach(other.Remote)
	q.turn(other, "", "echo OTHERS-SECRET >theirs")
	session := other.session()
	token := bed.Trim(h.MustRun(t, "sed", "-n", `s/^auth_bearer_token = "\(.*\)"/\1/p`, h.Home+"/environments.toml"))
	require.Len(t, token, 52)
	require.NotEmpty(t, h.MustRun(t, "grep", "-rl", hidden(token), h.Home+"/"), "the search finds it where it is")
	look := fmt.Sprintf(`exec 2>/dev/null; pattern='SECRE[T]|%s|%s'
grep -rIslE "$pattern" /etc /home /root /run /srv /tmp /var /dev/shm /workspace
grep -rslE "$pattern" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
ls -A /var/lib/codex-remote/ /run/codex-remote/ /run/codex-remote-run/ /etc/codex-proxy /run/codex-runner
for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline | grep -E 'app-serve[r]|remote-exe[c]'; done
find / -xdev -type s | grep -E 'codex|dbus'
cd /tmp; codex-runner sessions
(echo >/dev/tcp/%s) && echo the model
(echo >/dev/tcp/127.0.0.1/8787) && echo the API
ls /sys/class/net
unshare -Urm true && echo namespaces
echo looked`, hidden(token), hidden(bed.ModelAddr), strings.Replace(bed.ModelAddr, ":", "/", 1))
	assert.Equal(t, "lo\nlooked", p.turn(h, thread, look))

	// codex has its threads, and sees nothing of the project, of its repository, or of a session.
	pid := bed.Trim(h.MustRun(t, "sh", "-c", `systemctl show -P ControlGroup `+h.Unit+` | xargs -I{} cat /sys/fs/cgroup{}/cgroup.procs |
		while read p; do tr '\0' ' ' </proc/$p/cmdline | grep -q '^[^ ]*/codex app-server' && echo $p; done | head -1`))
	require.NotEmpty(t, pid)
	root := "/proc/" + pid + "/root"
	assert.Equal(t, "/workspace", bed.Trim(h.MustRun(t, "readlink", "/proc/"+pid+"/cwd")))
	assert.Empty(t, h.MustRun(t, "sh", "-c", "ls -A "+root+"/srv "+root+"/workspace "+root+"/home "+root+"/run/codex-runner 2>/dev/null | grep -v ^/ | grep . || true"))
	assert.NotEmpty(t, h.MustRun(t, "sh", "-c", "ls -A "+root+h.Home+"/sessions"), "the view is the right one")
	assert.Equal(t, "lo", bed.Trim(h.MustRun(t, "nsenter", "-t", pid, "-n", "sh", "-c", "sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/self/net/dev")))
	h.MustRun(t, "codex-proxy", "remotes", "remove", "--purge", "other")
	untilClosed(h.Bed, session)
}

// renewed takes the session away while the remote does not run: the next start has a new checkout, with a note.
func (h handsBed) renewed(p *person, thread string) {
	t := h.T
	assert.Equal(t, "by the brain", p.turn(h, thread, "cat patched"), "the workspace is the same")
	h.MustRun(t, "codex-proxy", "remotes", "stop", "build")
	h.MustRun(t, "timeout", "180", "sh", "-c", "while systemctl is-active --quiet "+h.unit()+"; do sleep 0.05; done")
	assert.Contains(t, h.MustRun(t, "codex-proxy", "remotes", "diff", "build"), "+++ b/patched\n", "without an exec-server")
	old := h.session()
	h.closeSession()
	p = attach(h.Remote)
	p.call("thread/resume", map[string]any{"threadId": thread}, nil)
	assert.NotEqual(t, old, h.session())
	asked := len(h.Models.Turns())
	assert.Equal(t, "AGENTS.md\nnotes", p.turn(h, thread, "ls"), "a new checkout")
	body := string(h.Models.Turns()[asked].Body.Raw)
	assert.Contains(t, body, "workspace_renewed", "the model reads it before its next turn")
	assert.Contains(t, body, "codex-runner diff "+old)
	assert.Equal(t, 1, strings.Count(string(h.Models.Turns()[asked+1].Body.Raw), "<workspace_renewed"), "and once")
	assert.Contains(t, strings.Join(p.seen, "\n"), "The workspace is a new checkout", "a person reads it")
	assert.Contains(t, h.MustRun(t, "codex-runner", "diff", old), "+++ b/patched\n")
	assert.Contains(t, h.MustRun(t, "journalctl", "CODEX_EVENT=hands-renewed"), old)
	next := p.newThread()
	p.turn(h, next, "true")
	last := h.Models.Turns()
	assert.NotContains(t, string(last[len(last)-1].Body.Raw), "workspace_renewed", "a thread that is new")
}

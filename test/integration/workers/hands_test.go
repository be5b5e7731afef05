package workers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

const (
	handsUnit = "codex-hands@default.service"
	// handsOf is the table of a worker with one session for each of two keys, and one more.
	handsOf = `[hands]
runner = true
repo = "/srv/app"
memory = "1G"
sessions = 3
key_sessions = 2
`
)

// handsBed is a machine with both packages, a repository, and a native worker whose commands are executed in hands.
type handsBed struct {
	*bed.Bed
	ann, bob string // API keys
}

func newHands(t *testing.T, suite string) handsBed {
	t.Helper()
	root := machine.Installed(machine.Debian(suite, "git"), os.Getenv("CODEX_PROXY_TEST_DEB"))
	b := bed.Boot(t, machine.Installed(root, os.Getenv("CODEX_PROXY_TEST_RUNNER_DEB")))
	b.MustRun(t, "systemctl", "enable", "--now", "codex-runner.socket")
	b.MustRun(t, "sh", "-ec", `git init -q -b main /srv/app; cd /srv/app; git config user.name a; git config user.email a@example.org
		echo PROJECT >notes; git add .; git commit -qm first`)
	write(b, bed.KeyFile, "")
	write(b, bed.WorkerFile, "network = \"model\"\n"+bed.NativeWorker())
	h := handsBed{Bed: b}
	b.MustRun(t, "systemctl", "daemon-reload")
	b.Start()
	h.ann, h.bob = bed.AddKey(b, "ann"), bed.AddKey(b, "bob")
	res, answer := h.ask(h.ann, "A", "hello")
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	assert.Contains(t, answer, `"no_hands"`)
	h.give(handsOf)
	return h
}

// give has the worker start with another table [hands].
func (h handsBed) give(table string) {
	h.T.Helper()
	write(h.Bed, bed.WorkerFile, "network = \"model\"\n"+bed.NativeWorker()+table)
	h.MustRun(h.T, "systemctl", "daemon-reload")
	h.MustRun(h.T, "systemctl", "restart", bed.WorkerUnit)
	h.Until("ready", bed.Ready)
}

// ask makes a response. Without a name it names no session.
func (h handsBed) ask(key, session, prompt string) (*http.Response, string) {
	h.T.Helper()
	body, err := json.Marshal(map[string]any{"model": bed.Model, "input": prompt})
	require.NoError(h.T, err)
	return h.request(http.MethodPost, "/v1/responses", string(body), key, session)
}

func (h handsBed) request(method, path, body, key, session string) (*http.Response, string) {
	h.T.Helper()
	req, err := http.NewRequestWithContext(h.T.Context(), method, bed.Base+path, strings.NewReader(body))
	require.NoError(h.T, err)
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if session != "" {
		req.Header.Set("X-Codex-Session", session)
	}
	res, err := h.HTTP.Do(req)
	require.NoError(h.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(h.T, err)
	return res, string(text)
}

// run has the model run a command in a session, and returns what it reads of that.
func (h handsBed) run(key, session, command string) (*http.Response, string) {
	h.T.Helper()
	before := len(h.Models.Turns())
	res, answer := h.ask(key, session, "[["+step(h.Bed, command)+"]]")
	require.Equal(h.T, http.StatusOK, res.StatusCode, "%s\n%s\n%s", answer, h.UnitJournal(handsUnit), h.UnitJournal(bed.WorkerUnit))
	turns := h.Models.Turns()[before:]
	require.Len(h.T, turns, 2, "the call, and its output")
	return res, string(turns[1].Body.Input[len(turns[1].Body.Input)-1])
}

// step is the call of codex's tool for a command.
func step(b *bed.Bed, command string) string {
	if hasCode(b) {
		quoted, _ := json.Marshal(command)
		program := "let r = await tools.exec_command({cmd: " + string(quoted) + ", login: false, yield_time_ms: 30000}); " +
			"let out = r.output; while (r.session_id !== undefined) { " +
			"r = await tools.write_stdin({session_id: r.session_id, chars: ``, yield_time_ms: 30000}); out += r.output } text(out)"
		return "custom exec // @exec: {\"yield_time_ms\": 300000}\ntry { " + program + " } catch (e) { text(`error ${e}`) }"
	}
	call, _ := json.Marshal(map[string]any{"cmd": command, "login": false, "yield_time_ms": 30_000})
	return "call exec_command " + string(call)
}

// A client of the API has codex work in sessions of its own, which no other key reaches.
func TestWorkerHands(t *testing.T) { bed.BothSuites(t, testWorkerHands) }

func testWorkerHands(t *testing.T, suite string) {
	h := newHands(t, suite)
	res, out := h.run(h.ann, "A", "id -un; pwd; cat notes; echo made >made")
	assert.Regexp(t, `cs-\w+\\n/workspace\\nPROJECT`, out)
	assert.Equal(t, "A true", res.Header.Get("X-Codex-Session")+" "+res.Header.Get("X-Codex-Session-New"))
	res, out = h.run(h.ann, "A", "cat made")
	assert.Contains(t, out, "made")
	assert.Empty(t, res.Header.Get("X-Codex-Session-New"))
	for _, other := range [][2]string{{h.ann, "B"}, {h.bob, "A"}} {
		_, out = h.run(other[0], other[1], "ls")
		assert.Contains(t, out, "notes")
		assert.NotContains(t, out, "made")
	}
	res, patch := h.request(http.MethodGet, "/v1/hands/A/diff", "", h.ann, "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Contains(t, patch, "+++ b/made\n@@ -0,0 +1 @@\n+made\n")
	_, patch = h.request(http.MethodGet, "/v1/hands/A/diff", "", h.bob, "")
	assert.Empty(t, patch)
	h.bounds()
	h.apart()
	h.faults()
	h.idle()
}

// bounds meets the bounds of the worker and of a key, and makes room.
func (h handsBed) bounds() {
	t := h.T
	res, answer := h.ask(h.ann, "C", "hello")
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	assert.Contains(t, answer, `"sessions_full"`)
	res, answer = h.request(http.MethodDelete, "/v1/hands/A", "", h.bob, "")
	assert.Equal(t, http.StatusNoContent, res.StatusCode, answer)
	res, answer = h.ask(h.ann, "C", "hello")
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	assert.Contains(t, answer, `"key_sessions_full"`)
	res, _ = h.request(http.MethodGet, "/v1/hands/A/diff", "", h.bob, "")
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
	_, out := h.run(h.bob, "", "ls; echo mine >mine")
	assert.Contains(t, out, "notes", "a turn without a name has a session of its own")
	h.untilSessions(2)
	assert.Contains(t, h.MustRun(t, "journalctl", "-u", handsUnit, "CODEX_EVENT=hands-command", "CODEX_API_KEY_NAME=ann",
		"CODEX_CONVERSATION=A"), "a command starts in hands")
}

// untilSessions waits until the worker has so many sessions.
func (h handsBed) untilSessions(n int) {
	h.T.Helper()
	h.MustRun(h.T, "timeout", "120", "sh", "-c",
		fmt.Sprintf("while [ $(ls /var/lib/private/codex-hands/default | wc -l) -ne %d ]; do sleep 0.05; done", n))
}

// apart has a tool in the hands look for what is of codex and of the service, and looks for the project where codex is.
func (h handsBed) apart() {
	t := h.T
	look := fmt.Sprintf(`exec 2>/dev/null
ls -A /var/lib/codex-worker/ /var/lib/codex-hands/ /run/codex-worker /run/codex-hands /run/codex-hands-own /run/codex-runner /etc/codex-proxy
for p in /proc/[0-9]*; do tr "\0" " " <$p/cmdline | grep -E "app-serve[r]|worker-hand[s]|notify-exe[c]"; done
find / -xdev -type s | grep -E "codex|dbus"
(echo >/dev/tcp/%s) && echo the model
(echo >/dev/tcp/127.0.0.1/8787) && echo the API
(echo >/dev/tcp/127.0.0.1/8790) && echo the broker
ls /sys/class/net
echo looked`, strings.Replace(bed.ModelAddr, ":", "/", 1))
	_, out := h.run(h.ann, "A", "bash -c "+quoted(look))
	assert.Regexp(t, `[^\w/]lo\\nlooked`, out)
	for _, found := range []string{"app-server", "the model", "the API", "the broker", ".sock", "auth", "toml"} {
		assert.NotContains(t, out, found)
	}
	if hasCode(h.Bed) { // the model names the environment of another session, which codex knows
		before := len(h.Models.Turns())
		h.ask(h.ann, "A", "[[custom exec try { text((await tools.exec_command({cmd: `ls`, environment_id: `hands-1`})).output) } catch (e) { text(`error ${e}`) }]]")
		read := h.Models.Turns()[before:]
		assert.Regexp(t, "made|error", string(read[len(read)-1].Body.Input[len(read[len(read)-1].Body.Input)-1]))
	}
	root := fmt.Sprintf("/proc/%d/root", h.Codex().Inside)
	assert.Empty(t, h.MustRun(t, "sh", "-c", "ls -A "+root+"/srv/app/ "+root+"/workspace "+root+"/run/codex-runner 2>/dev/null | grep -v ^/ | grep . || true"))
	assert.Equal(t, "include_local = false\n", h.MustRun(t, "grep", "-v", "^#", nativeHome+"/environments.toml"))
	socket := fmt.Sprintf("nsenter -t %d -n timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/8792; printf \"GET /x HTTP/1.0\\r\\n\\r\\n\" >&3; head -1 <&3'",
		h.Codex().Inside)
	assert.Contains(t, h.MustRun(t, "sh", "-c", socket), " 404 ", "without an address of a session and its token")
}

// outdated has the units differ from the worker's file: a fault there ends no unit of hands that runs, and a unit whose
// file has no hands any more reports that.
func (h handsBed) outdated() {
	t := h.T
	before := h.MustRun(t, "systemctl", "show", "-P", "MainPID", handsUnit)
	write(h.Bed, bed.WorkerFile, "network = \"model\"\n"+bed.NativeWorker()+handsOf+"memry = \"1G\"\n")
	h.MustRun(t, "systemctl", "daemon-reload")
	assert.Equal(t, before, h.MustRun(t, "systemctl", "show", "-P", "MainPID", handsUnit))
	write(h.Bed, bed.WorkerFile, "network = \"model\"\n"+bed.NativeWorker()+handsOf)
	h.MustRun(t, "systemctl", "daemon-reload")
	write(h.Bed, bed.WorkerFile, "network = \"model\"\n"+bed.NativeWorker())
	h.MustRun(t, "systemctl", "restart", bed.WorkerUnit)
	h.Until("ready", bed.Ready)
	res, answer := h.ask(h.ann, "A", "hello")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Contains(t, answer, "or no [hands]")
	assert.Contains(t, h.MustRun(t, "systemctl", "status", handsUnit), "has no [hands]")
	assert.Equal(t, "0\n", h.MustRun(t, "systemctl", "show", "-P", "NRestarts", handsUnit))
}

func quoted(script string) string {
	return "'" + strings.ReplaceAll(script, "'", `'\''`) + "'"
}

// faults kills what takes part in a turn while a command runs.
func (h handsBed) faults() {
	t := h.T
	started := func(name string) {
		h.MustRun(t, "timeout", "120", "sh", "-c", "until pgrep -f 'sleep 432["+name+"]' >/dev/null; do sleep 0.05; done")
	}
	gone := func(name string) {
		h.MustRun(t, "timeout", "120", "sh", "-c", "while pgrep -f 'sleep 432["+name+"]' >/dev/null; do sleep 0.05; done")
	}
	type answer struct{ out string }
	begin := func(name string) <-chan answer {
		done := make(chan answer, 1)
		go func() {
			_, out := h.run(h.ann, "A", "sleep 432"+name)
			done <- answer{out}
		}()
		started(name)
		return done
	}
	turn := begin("1") // the exec-server
	h.MustRun(t, "pkill", "-KILL", "-f", "exec-server --listen")
	assert.Contains(t, (<-turn).out, "exec-server", "the model reads the error")
	gone("1")
	_, out := h.run(h.ann, "A", "cat made")
	assert.Contains(t, out, "made")

	turn = begin("2") // the unit of the hands
	h.MustRun(t, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", handsUnit)
	assert.Contains(t, (<-turn).out, "exec-server", "the model reads the error")
	gone("2")
	_, out = h.run(h.ann, "A", "cat made")
	assert.Contains(t, out, "made")

	lost := make(chan int, 1) // codex
	go func() {
		res, _ := h.ask(h.ann, "A", "[["+step(h.Bed, "sleep 4323")+"]]")
		lost <- res.StatusCode
	}()
	started("3")
	h.Signal(h.Codex(), unix.SIGKILL)
	assert.Equal(t, http.StatusServiceUnavailable, <-lost)
	gone("3")
	h.Until("ready", bed.Ready)
	_, out = h.run(h.ann, "A", "cat made")
	assert.Contains(t, out, "made", "the workspace is the same")
}

// idle ends a session that no turn has used, and the next one has a new checkout.
func (h handsBed) idle() {
	t := h.T
	h.give(handsOf + "idle = \"1s\"\n")
	h.untilSessions(0)
	res, out := h.run(h.ann, "A", "ls")
	assert.NotContains(t, out, "made")
	assert.Equal(t, "true", res.Header.Get("X-Codex-Session-New"))
	h.outdated()
	h.give("")
	h.MustRun(t, "test", "!", "-e", nativeHome+"/environments.toml")
	assert.Contains(t, h.MustRun(t, "sh", "-c", "systemctl is-active "+handsUnit+" || true"), "inactive")
	res, _ = h.ask(h.ann, "", "hello")
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

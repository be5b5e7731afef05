package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
	"codex-proxy/test/nightly"
)

// daemonBed is a machine with codex-runner as it is installed.
type daemonBed struct {
	*machine.Machine
	t      *testing.T
	client *http.Client
}

const (
	runnerService = "codex-runner.service"
	runnerSocket  = "codex-runner.socket"
)

// runnerDaemonFiles are the installed files of the daemon, as runnerFiles are those of sessions.
var runnerDaemonFiles = map[string]string{
	"packaging/systemd/" + runnerService:   "/usr/lib/systemd/system/",
	"packaging/systemd/" + runnerSocket:    "/usr/lib/systemd/system/",
	"packaging/polkit/codex-runner.rules":  "/usr/share/polkit-1/rules.d/",
	"packaging/sysusers/codex-runner.conf": "/usr/lib/sysusers.d/",
	"packaging/runner/runner.toml":         "/etc/codex-runner/",
}

func newDaemonBed(t *testing.T, suite string, packages ...string) *daemonBed {
	t.Helper()
	return startDaemon(t, bootRunner(t, suite, runnerDaemonFiles, packages...))
}

// startDaemon starts the socket of the daemon on a machine with its files.
func startDaemon(t *testing.T, m *machine.Machine) *daemonBed {
	t.Helper()
	b := &daemonBed{Machine: m, t: t}
	b.client = &http.Client{Timeout: bed.Bound, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return m.DialUnix(ctx, paths.Socket) },
	}}
	t.Cleanup(b.client.CloseIdleConnections)
	b.MustRun(t, "systemd-sysusers")
	b.MustRun(t, "systemd-tmpfiles", "--create", "codex-runner.conf")
	b.MustRun(t, "systemctl", "start", runnerSocket)
	return b
}

// try sends a request as root, and returns an error if there is no whole answer.
func (b *daemonBed) try(method, path string, body any) (status int, text []byte, err error) {
	var from io.Reader
	if raw, ok := body.(string); ok {
		from = strings.NewReader(raw)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(b.t, err)
		from = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, "http://codex-runner"+path, from)
	require.NoError(b.t, err)
	answer, err := b.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// send sends a request as root and decodes the answer.
func (b *daemonBed) send(method, path string, body, to any) {
	b.t.Helper()
	status, text, err := b.try(method, path, body)
	require.NoError(b.t, err)
	require.Less(b.t, status, 300, string(text))
	if to != nil {
		require.NoError(b.t, json.Unmarshal(text, to))
	}
}

// create makes a session with one command.
func (b *daemonBed) create(n wire.NewSession) wire.Session {
	b.t.Helper()
	var s wire.Session
	b.send(http.MethodPost, "/v1/sessions", n, &s)
	return s
}

func script(text string) wire.NewSession {
	return wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"sh", "-c", text}}}}
}

// follow reads the output of a command up to its end, over the deaths of daemons, and returns the command.
func (b *daemonBed) follow(id string, n int) (output []byte, c wire.Command) {
	b.t.Helper()
	path := fmt.Sprintf("/v1/sessions/%s/commands/%d", id, n)
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); time.Now().Before(deadline); pace.Pause(b.t.Context()) {
		status, text, err := b.try(http.MethodGet, fmt.Sprintf("%s/logs?follow=true&since_offset=%d", path, len(output)), nil)
		if status == http.StatusOK {
			output = append(output, text...)
		}
		if err == nil {
			require.Equal(b.t, http.StatusOK, status, string(text))
			b.send(http.MethodGet, path, nil, &c)
			require.NotNil(b.t, c.Outcome)
			return output, c
		}
	}
	require.FailNow(b.t, "the command does not end")
	return nil, c
}

// TestRunnerDaemon runs commands through the installed daemon.
func TestRunnerDaemon(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		t.Run("ends", func(t *testing.T) {
			for text, want := range map[string]ends.Word{
				"echo out; echo err >&2": ends.Succeeded, "exit 3": ends.Failed, "kill -SEGV $$": ends.Signaled,
				"exec yes": ends.OutputLimit, "exec sleep 4321": ends.TimedOut, "exec no-such": ends.Failed,
			} {
				n := script(text)
				n.Limits = wire.Limits{Output: 100_000}
				if want == ends.TimedOut {
					n.Limits.Timeout = wire.Duration(200 * time.Millisecond)
				}
				s := b.create(n)
				output, c := b.follow(s.ID, 1)
				assert.Equal(t, want, c.Outcome.Word, "%s: %s", text, c.Outcome.Text)
				assert.EqualValues(t, len(output), c.Usage.Output)
				assert.EqualValues(t, 4<<30, c.Limits.Disk)
				assert.Len(t, c.Invocation, 32)
			}
			s := b.create(wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"no-such"}}}})
			_, c := b.follow(s.ID, 1)
			assert.Equal(t, ends.CommandNotFound, c.Outcome.Word)
		})
		t.Run("a session", func(t *testing.T) {
			n := wire.NewSession{
				Secrets: map[string]string{"TOKEN": "very secret"}, Limits: wire.Limits{Memory: 64 << 20, Tasks: 77},
				Commands: []wire.NewCommand{
					{Args: []string{"sh", "-c", "cat > kept; cat $CREDENTIALS_DIRECTORY/secrets_TOKEN"}, Stdin: true},
					{Args: []string{"sh", "-c", "cat kept; exec sleep 4321"}},
				},
			}
			s := b.create(n)
			b.send(http.MethodPut, "/v1/sessions/"+s.ID+"/commands/1/stdin", "input\n", nil)
			output, c := b.follow(s.ID, 1)
			assert.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
			assert.Equal(t, "***", string(output))
			b.until(s.ID, 2, wire.CommandRunning)
			shown, err := b.Show(t.Context(), paths.SessionUnit(s.ID), "MemoryMax", "TasksMax")
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"MemoryMax": "67108864", "TasksMax": "77"}, shown)
			assert.Contains(t, b.shell(s.ID, "cat kept; exit 7\n"), "input")
			b.send(http.MethodPost, "/v1/sessions/"+s.ID+"/cancel", wire.Cancel{}, nil)
			output, c = b.follow(s.ID, 2)
			assert.Equal(t, "input\n", string(output))
			assert.Equal(t, []any{ends.Cancelled, "root"}, []any{c.Outcome.Word, c.Outcome.CancelledBy})
		})
		t.Run("artifacts", func(t *testing.T) {
			n := script("mkdir a; echo '<testsuite/>' > a/r.xml; ln -s /etc/passwd a/l.xml; exit 3")
			n.Commands[0].Artifacts = []string{"**/*.xml"}
			s := b.create(n)
			_, c := b.follow(s.ID, 1)
			assert.Equal(t, []any{ends.Failed, ""}, []any{c.Outcome.Word, c.ArtifactsFault})
			var all wire.Artifacts
			b.send(http.MethodGet, "/v1/sessions/"+s.ID+"/artifacts", nil, &all)
			require.Len(t, all.Artifacts, 1)
			assert.Equal(t, []string{"a/r.xml", "junit"}, []string{all.Artifacts[0].Path, all.Artifacts[0].Kind})
			_, text, err := b.try(http.MethodGet, fmt.Sprintf("/v1/sessions/%s/artifacts/%d", s.ID, all.Artifacts[0].ID), nil)
			require.NoError(t, err)
			assert.Equal(t, "<testsuite/>\n", string(text))
		})
		t.Run("hold", func(t *testing.T) {
			n := script("echo mine > kept; exit 3")
			n.HoldOnFailure = wire.Duration(time.Hour)
			for end, path := range map[string]any{"release": nil, "cancel": wire.Cancel{}} {
				s := b.create(n)
				b.until(s.ID, 1, wire.CommandHeld)
				terminal := "printf 'test -t 0 && stty size; cat kept; exit 7\\n' | script -qec 'stty rows 33 cols 99; codex-runner shell " + s.ID + "' /dev/null"
				shown, _, err := b.Run(t.Context(), "sh", "-c", terminal)
				assert.ErrorContains(t, err, "7")
				assert.Contains(t, shown, "33 99")
				assert.Contains(t, shown, "mine")
				b.send(http.MethodPost, "/v1/sessions/"+s.ID+"/"+end, path, nil)
				_, c := b.follow(s.ID, 1)
				assert.Equal(t, []any{ends.Failed, 3, ""}, []any{c.Outcome.Word, c.Outcome.Status, c.Outcome.CancelledBy})
				if end == "cancel" { // it closes the session, whose home goes
					home := paths.Workspaces + "/" + paths.HomeDir(s.ID)
					gone := func() bool { _, _, err := b.Run(t.Context(), "test", "-e", home); return err != nil }
					await.True(t, gone, bed.Bound, "the home is there")
				}
			}
		})
		t.Run("users", func(t *testing.T) {
			b.MustRun(t, "useradd", "--groups=codex-runner", "alice")
			s := b.create(script("exit 0"))
			curl := []string{"runuser", "-u", "alice", "--", "curl", "-sS", "--unix-socket", paths.Socket, "http://codex-runner/v1/sessions"}
			assert.JSONEq(t, `{"sessions":[]}`, b.MustRun(t, curl...))
			curl[len(curl)-1] += "/" + s.ID
			assert.Contains(t, b.MustRun(t, curl...), `"code":"not_found"`)
			made := b.MustRun(t, append(curl[:len(curl)-1], "--json", `{"commands":[{"args":["true"]}]}`, "http://codex-runner/v1/sessions")...)
			assert.Contains(t, made, `"name":"alice"`)
			_, stderr, err := b.Run(t.Context(), "runuser", "-u", "nobody", "--", "curl", "-sS", "--unix-socket", paths.Socket, "http://x/")
			assert.Error(t, err)
			assert.Contains(t, stderr, "connect")
		})
		t.Run("console", b.console)
		t.Run("ports", b.ports)
		t.Run("terminal", b.terminal)
		t.Run("without inotify", func(t *testing.T) { // fs.inotify.max_user_instances is used up
			dir := "/run/systemd/system/" + runnerService + ".d"
			require.NoError(t, b.WriteFile(dir+"/inotify.conf", []byte("[Service]\nSystemCallFilter=~inotify_init1:EMFILE\n"), 0o644))
			b.MustRun(t, "systemctl", "daemon-reload")
			b.MustRun(t, "systemctl", "restart", runnerService)
			s := b.create(script("for i in 1 2 3; do echo $i; sleep 0.1; done"))
			output, c := b.follow(s.ID, 1)
			assert.Equal(t, []any{ends.Succeeded, "1\n2\n3\n"}, []any{c.Outcome.Word, string(output)})
			journal, err := b.Journal(t.Context(), "--unit="+runnerService)
			require.NoError(t, err)
			assert.Contains(t, journal, "raise the sysctl fs.inotify.max_user_instances")
			b.MustRun(t, "rm", dir+"/inotify.conf")
			b.MustRun(t, "systemctl", "daemon-reload")
			b.MustRun(t, "systemctl", "restart", runnerService)
		})
		t.Run("rights", b.rights)
		score := b.MustRun(t, "systemd-analyze", "security", "--no-pager", "--threshold=10", runnerService)
		assert.Contains(t, score, "Overall exposure level")
	})
}

// rights tries what the daemon's user may do, by the request that systemd sends to polkit, and a few requests to systemd.
func (b *daemonBed) rights(t *testing.T) {
	id, key, environment := strings.Repeat("z", 16), strings.Repeat("0", 16), strings.Repeat("0", 64)
	may := map[string][]string{
		paths.SessionUnit(id): {"start", "stop", "set-property"}, paths.OnlineUnit(id): {"start", "stop", "set-property"},
		paths.RepositoryUnit(key): {"start", "stop", "set-property"}, paths.EnvironmentUnit(environment): {"start", "stop", "set-property"},
		paths.SweepUnit("session", id): {"start"}, paths.SweepUnit("repository", key): {"start"},
		paths.SweepUnit("environment", key): {"start"}, paths.SweepUnit("environment", environment): {"start"}, paths.SweepUnit("slot", "9999"): {"start"},
		paths.SweepUnit("slot", "0"): nil, paths.SweepUnit("session", key+"1"): nil, paths.SweepUnit("etc", id): nil,
		"codex-session@.service": nil, "x" + paths.SessionUnit(id): nil, paths.SessionUnit(id) + ".d": nil,
		paths.RepositoryUnit(id): nil, runnerService: nil, "codex-sessions.slice": nil, "dbus.service": nil, "": nil,
	}
	pid := strings.TrimSpace(b.MustRun(t, "systemctl", "show", "--property=MainPID", "--value", runnerService))
	for unit, verbs := range may {
		for _, verb := range []string{"start", "stop", "set-property", "kill"} {
			_, _, err := b.Run(t.Context(), "pkcheck", "--process", pid, "--action-id", "org.freedesktop.systemd1.manage-units",
				"--detail", "unit", unit, "--detail", "verb", verb)
			assert.Equal(t, slices.Contains(verbs, verb), err == nil, "%s %s: %v", verb, unit, err)
		}
	}
	for _, denied := range [][]string{
		{"stop", "dbus.service"}, {"start", "systemd-tmpfiles-clean.service"}, {"set-property", runnerService, "MemoryMax=1G"},
		{"daemon-reload"}, {"enable", "codex-sweep@session-" + id + ".service"},
	} {
		_, _, err := b.Run(t.Context(), append([]string{"runuser", "-u", "codex-runner", "--", "systemctl"}, denied...)...)
		assert.Error(t, err, denied)
	}
	_, _, err := b.Run(t.Context(), "runuser", "-u", "codex-runner", "--", "systemd-run", "--wait", "true")
	assert.Error(t, err)
}

// shell opens a shell in a session, types text, and returns what the terminal shows. The shell ends with status 7.
func (b *daemonBed) shell(id, text string) string {
	b.t.Helper()
	conn, err := b.DialUnix(b.t.Context(), paths.Socket)
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(bed.Bound)))
	_, err = fmt.Fprintf(conn, "POST /v1/sessions/%s/shell?rows=30 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		id, wire.ShellProtocol)
	require.NoError(b.t, err)
	from := bufio.NewReader(conn)
	answer, err := http.ReadResponse(from, nil)
	require.NoError(b.t, err)
	require.Equal(b.t, http.StatusSwitchingProtocols, answer.StatusCode)
	require.NoError(b.t, wire.WriteShellFrame(conn, wire.ShellData, []byte(text)))
	var shown strings.Builder
	for {
		kind, payload, err := wire.ReadShellFrame(from)
		require.NoError(b.t, err, shown.String())
		if kind == wire.ShellExit {
			assert.Equal(b.t, []byte{0, 0, 0, 7}, payload)
			return shown.String()
		}
		shown.Write(payload)
	}
}

// until waits for a state of a command.
func (b *daemonBed) until(id string, n int, state wire.CommandState) {
	b.t.Helper()
	var c wire.Command
	for deadline, pace := time.Now().Add(5*bed.Bound), (await.Pace{}); ; pace.Pause(b.t.Context()) {
		b.send(http.MethodGet, fmt.Sprintf("/v1/sessions/%s/commands/%d", id, n), nil, &c)
		if c.State == state {
			return
		}
		require.True(b.t, time.Now().Before(deadline), "%+v %+v", c, c.Outcome)
	}
}

// TestRunnerDaemonTimes logs how long a command takes from the request to its end, beside systemd-run with the same
// sandbox in the same run, and what the daemon needs in memory.
func TestRunnerDaemonTimes(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		direct := append([]string{"systemd-run", "--quiet", "--wait", "--pipe"}, append(sandboxOf(t), "true")...)
		var beside, commands []time.Duration
		for range nightly.Or(20, 3) {
			began := time.Now()
			b.MustRun(t, direct...)
			beside = append(beside, time.Since(began))
			began = time.Now()
			s := b.create(wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"true"}}}})
			b.follow(s.ID, 1)
			commands = append(commands, time.Since(began))
		}
		slices.Sort(beside)
		slices.Sort(commands)
		for what, times := range map[string][]time.Duration{"systemd-run": beside, "a command": commands} {
			t.Logf("%s: %s: median %v, fastest %v", suite, what, times[len(times)/2], times[0])
		}
		pid, err := b.MainPID(t.Context(), runnerService)
		require.NoError(t, err)
		resident, anonymous := bed.MemoryOf(t, machine.Process{Host: pid})
		t.Logf("%s: the daemon: %d kB resident, of which %d kB are no file", suite, resident, anonymous)
	})
}

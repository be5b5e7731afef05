package runner

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// isolationBed is a daemonBed with a session that holds a mark in every place that it has, and things of others.
type isolationBed struct {
	*daemonBed
	mark   string
	victim wire.Session
	pid    int    // of its command
	found  []byte // what an intruder knows of the victim, in the worst case
}

const intruder = "/usr/bin/intruder"

func newIsolationBed(t *testing.T, suite string) *isolationBed {
	t.Helper()
	b := &isolationBed{daemonBed: newDaemonBed(t, suite), mark: "the mark of the victim"}
	// A session more than the victim and two others takes the workspace of one that is idle.
	require.NoError(t, b.WriteFile("/etc/codex-runner/runner.toml", []byte("max_sessions = 3\nworkspaces = 3\n"), 0o644))
	program := filepath.Join(t.TempDir(), "intruder")
	require.NoError(t, bed.Build(t.Context(), program, "", "codex-proxy/test/intruder"))
	require.NoError(t, b.CopyIn(program, intruder))
	b.MustRun(t, "install", "--mode=4755", intruder, intruder+"-root")
	key := paths.Key("https://example.org/another")
	for _, file := range []string{
		paths.RepositoryStates + "/" + key + "/mirror.git/HEAD", paths.EnvironmentStates + "/4242/" + key + "/.ready",
		"/run/codex-proxy/token", "/run/codex-worker/token", "/var/lib/codex-proxy/token", "/var/lib/codex-worker/token",
	} {
		require.NoError(t, b.WriteFile(file, []byte("of others"), 0o644))
	}
	b.MustRun(t, "systemd-run", "--unit=proxy", "--socket-property=ListenStream=/run/codex-proxy/api.sock",
		"--socket-property=SocketMode=0666", "true")
	for _, address := range [][2]string{{"tcp", "127.0.0.1:8787"}, {"unix", "@host"}} {
		listener, err := b.Listen(address[0], address[1])
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
	}
	b.hold(key)
	return b
}

// hold makes the victim.
func (b *isolationBed) hold(key string) {
	b.t.Helper()
	b.victim = b.create(wire.NewSession{
		Secrets:  map[string]string{"TOKEN": "the secret of the victim"},
		Commands: []wire.NewCommand{{Args: []string{intruder, "hold", b.mark}, Env: map[string]string{"MARK": b.mark}}},
	})
	b.until(b.victim.ID, 1, wire.CommandRunning)
	b.logged(b.victim.ID, b.mark+" is ready\n")
	unit := paths.SessionUnit(b.victim.ID)
	processes, err := b.Processes(unit)
	require.NoError(b.t, err)
	at := slices.IndexFunc(processes, func(p machine.Process) bool { return strings.HasPrefix(p.Command, intruder) })
	require.GreaterOrEqual(b.t, at, 0, "%v", processes)
	b.pid = processes[at].Inside
	shown, err := b.Show(b.t.Context(), unit, "MainPID", "UID")
	require.NoError(b.t, err)
	main, err := strconv.Atoi(shown["MainPID"])
	require.NoError(b.t, err)
	uid, err := strconv.Atoi(shown["UID"])
	require.NoError(b.t, err)
	b.found, err = json.Marshal(map[string]any{
		"ID": b.victim.ID, "Slot": b.slotOf(b.victim.ID), "UID": uid, "PID": b.pid, "Main": main,
		"Key": key, "Mark": b.mark, "Unit": unit, "Remote": "192.0.2.1:80",
	})
	require.NoError(b.t, err)
}

// logged waits until a command has written a text.
func (b *isolationBed) logged(id, text string) {
	b.t.Helper()
	conn, err := b.DialUnix(b.t.Context(), paths.Socket)
	require.NoError(b.t, err)
	defer conn.Close()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet,
		"http://codex-runner/v1/sessions/"+id+"/commands/1/logs?follow=true", nil)
	require.NoError(b.t, err)
	answer, err := b.client.Do(request)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	read := make([]byte, len(text))
	for n := 0; n < len(read); {
		more, err := answer.Body.Read(read[n:])
		require.NoError(b.t, err, string(read[:n]))
		n += more
	}
	require.Equal(b.t, text, string(read))
}

// reached returns what a command of the intruder reached.
func (b *isolationBed) reached(output string) []string {
	b.t.Helper()
	var list []string
	for line := range strings.Lines(output) {
		if what, ok := strings.CutPrefix(line, "REACHED "); ok {
			list = append(list, strings.TrimSpace(what))
		}
	}
	return list
}

// TestRunnerIsolation has a session that tries to reach another one, the service and the host, in all ways we know.
func TestRunnerIsolation(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newIsolationBed(t, suite)
		try := wire.NewCommand{Args: []string{intruder, "try", string(b.found)}}
		s := b.create(wire.NewSession{Commands: []wire.NewCommand{try}})
		output, c := b.follow(s.ID, 1)
		require.Equal(t, ends.Succeeded, c.Outcome.Word, "%s: %s", c.Outcome.Text, output)
		assert.Empty(t, b.reached(string(output)))
		t.Logf("%s: %s", suite, output)
		// With the network, it also reaches what listens in that of the host, and nothing more.
		s = b.create(wire.NewSession{Network: true, Commands: []wire.NewCommand{try}})
		output, c = b.follow(s.ID, 1)
		require.Equal(t, ends.Succeeded, c.Outcome.Word, "%s: %s", c.Outcome.Text, output)
		assert.ElementsMatch(t, []string{"connect to @host", "connect to 127.0.0.1:8787"}, b.reached(string(output)))

		// The same attempts succeed where nothing keeps them from it: as root, outside of the sandbox.
		var id, pid = b.victim.ID, strconv.Itoa(b.pid)
		control := []string{
			"read /var/lib/codex-workspace/home-" + id + "/mark", "read /var/lib/codex-runner/sessions/" + id + "/1/output",
			"read /run/codex-runner/daemon/secrets/" + id + "/TOKEN", "read /proc/" + pid + "/environ", "read /proc/" + pid + "/cwd/mark",
			"read /tmp/systemd-private-*/tmp/mark", "find the mark in /proc", "signal " + pid, "trace " + pid, "memory of " + pid,
			"connect to /run/codex-runner/api.sock", "connect to /run/dbus/system_bus_socket", "connect to /run/codex-proxy/*",
			"connect to @host", "connect to 127.0.0.1:8787", "read /run/codex-proxy/*", "a program with the set-user-ID bit",
			"a user namespace", "write into /repository/mirror.git",
		}
		direct := b.MustRun(t, append([]string{intruder, "try", string(b.found)}, control...)...)
		assert.ElementsMatch(t, control[:len(control)-1], b.reached(direct))
		b.undisturbed()
	})
}

// plant leaves in a session all that could mislead root or the next session.
const plant = `umask 0; for d in $HOME /workspace /tmp /var/tmp /dev/shm; do echo planted >$d/mark; done
ln -s /etc/passwd link; ln -s /etc directory; ln -s /etc .git; ln /etc/passwd hard 2>/dev/null; mkfifo pipe $HOME/pipe
mkdir -p -m 0777 open a/b/c; mkdir -m 0 closed; ln -s /etc/shadow $HOME/shadow; mv a/b a/moved; ln -s / a/b; chmod 0 a .
exit 0`

// TestRunnerReuse has sessions that get the workspace and the user of an earlier one: they find nothing of it.
func TestRunnerReuse(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newIsolationBed(t, suite)
		etc := b.MustRun(t, "sh", "-c", "ls -ln /etc /etc/passwd /etc/shadow | sha256sum")
		first := b.create(script(plant))
		_, c := b.follow(first.ID, 1)
		require.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
		user := strings.TrimSpace(b.MustRun(t, "stat", "--format=%u", paths.PrivateStates+"/codex-session/"+first.ID))
		slot := b.slotOf(first.ID)

		// systemd gives a session the user that its home belongs to, if no unit has that one (DynamicUser= in systemd.exec(5)).
		second := b.create(script("exit 0"))
		b.follow(second.ID, 1)
		b.gone(paths.SessionUnit(first.ID), paths.SessionUnit(second.ID))
		b.MustRun(t, "chown", "--recursive", user, paths.PrivateStates+"/codex-session/"+second.ID)
		found, err := json.Marshal(map[string]any{"ID": first.ID, "Slot": slot, "PID": 1, "Main": 1, "UID": 65533, "Mark": "planted"})
		require.NoError(t, err)
		b.send(http.MethodPost, "/v1/sessions/"+second.ID+"/commands",
			wire.NewCommand{Args: []string{"sh", "-c", "id -u >own; exec " + intruder + ` try "$FOUND"`}, Env: map[string]string{"FOUND": string(found)}}, nil)
		output, c := b.follow(second.ID, 2)
		require.Equal(t, ends.Succeeded, c.Outcome.Word, "%s: %s", c.Outcome.Text, output)
		assert.Empty(t, b.reached(string(output)))
		own, err := b.ReadFile(filepath.Join(paths.Workspaces, strconv.Itoa(b.slotOf(second.ID)), paths.Tree, "own"))
		require.NoError(t, err)
		assert.Equal(t, user, strings.TrimSpace(string(own)), "it has the user of the first session")

		// There is no other slot than that of a session that is idle.
		var last wire.Session
		for range 2 {
			last = b.create(script("ls -A /workspace $HOME /tmp /var/tmp /dev/shm; touch new; stat -c %a ."))
			output, c = b.follow(last.ID, 1)
			assert.Equal(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
			assert.Equal(t, "/dev/shm:\n\n/run/codex-home:\n\n/tmp:\n\n/var/tmp:\n\n/workspace:\n755\n", string(output))
		}
		assert.Equal(t, etc, b.MustRun(t, "sh", "-c", "ls -ln /etc /etc/passwd /etc/shadow | sha256sum"))

		// A session can kill all of its own processes, and no other.
		s := b.create(script("kill -KILL -1"))
		_, c = b.follow(s.ID, 1)
		assert.NotEqual(t, ends.Succeeded, c.Outcome.Word, c.Outcome.Text)
		t.Logf("%s: a command that kills its main process: %s: %s", suite, c.Outcome.Word, c.Outcome.Text)
		b.undisturbed()
	})
}

// undisturbed ends the victim, which reports everything that reached it.
func (b *isolationBed) undisturbed() {
	b.t.Helper()
	b.send(http.MethodPost, "/v1/sessions/"+b.victim.ID+"/cancel", wire.Cancel{}, nil)
	output, c := b.follow(b.victim.ID, 1)
	assert.Equal(b.t, b.mark+" is ready\nended\n", string(output))
	assert.Equal(b.t, ends.Cancelled, c.Outcome.Word, c.Outcome.Text)
}

// slotOf returns the slot of the workspace that a session has.
func (b *isolationBed) slotOf(id string) int {
	b.t.Helper()
	tenants := b.MustRun(b.t, "grep", "--recursive", "--include="+paths.Tenant, "--files-with-matches", id, paths.Workspaces)
	slot, err := strconv.Atoi(filepath.Base(filepath.Dir(strings.TrimSpace(tenants))))
	require.NoError(b.t, err)
	return slot
}

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/outcome"
)

// result is what a command line leaves behind.
type result struct {
	status         int
	stdout, stderr string
}

// try runs a command line.
func try(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// echo is a command that prints its arguments and succeeds.
func echo(c *apitest.Command) {
	c.Write(logs.Stdout, strings.Join(c.Asked.Args[1:], " ")+"\n")
	c.End(outcome.Outcome{Word: outcome.Succeeded, Text: "The command succeeded."})
}

func TestRun(t *testing.T) {
	daemon := apitest.Start(t, echo)
	assert.Equal(t, result{0, "a --json\n", ""}, try(t, "run", "--socket", daemon.Socket, "--", "echo", "a", "--json"))
	got := try(t, "run", "--socket", daemon.Socket, "--detach", "--keep", "echo")
	require.Equal(t, 0, got.status, got.stderr)
	id := strings.TrimSpace(got.stdout)
	daemon.Await(id, func(s wire.Session) bool { return s.State == wire.SessionIdle })
	assert.Equal(t, result{0, "b\n", ""}, try(t, "run", "--socket", daemon.Socket, "--session", id, "--", "echo", "b"))
	assert.Equal(t, result{0, "b\n", ""}, try(t, "logs", "-f", "--socket", daemon.Socket, id))
	assert.Equal(t, result{0, "\n", ""}, try(t, "logs", "--command", "1", "--socket", daemon.Socket, id))
	assert.Contains(t, try(t, "show", id, "--socket", daemon.Socket).stdout, "2. echo b\n  state:  succeeded\n")
	assert.Contains(t, try(t, "sessions", "--state", "idle", "--socket", daemon.Socket).stdout, id+"  alice  idle")
	assert.Equal(t, result{}, try(t, "cancel", id, "--socket", daemon.Socket))
	assert.Contains(t, try(t, "prune", "--socket", daemon.Socket).stdout, "2 sessions (2.0 KiB) removed\n")
	assert.Contains(t, try(t, "status", "--socket", daemon.Socket).stdout, "ready, version 1.2.3")
	assert.Contains(t, try(t, "artifacts", id, "--json", "--socket", daemon.Socket).stdout, `{"artifacts":[]}`)
}

// Each option reaches the daemon as what it means.
func TestRunOptions(t *testing.T) {
	var asked wire.NewSession
	daemon := apitest.Start(t, func(c *apitest.Command) {
		asked = c.Of
		echo(c)
	})
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s3cret"), 0o600))
	patch := filepath.Join(t.TempDir(), "patch")
	require.NoError(t, os.WriteFile(patch, []byte("diff"), 0o600))
	setup := filepath.Join(t.TempDir(), "set-up.toml")
	require.NoError(t, os.WriteFile(setup, []byte("run = 'x'"), 0o600))
	t.Setenv("TOKEN", "t0ken")
	got := try(t, "run", "--socket", daemon.Socket, "--repo", "https://example.org/a.git", "--ref", "main",
		"--patch", patch, "--env", "auto", "--setup", setup, "--network", "--secret", "FILE="+secret, "--secret", "TOKEN",
		"--hold-on-failure", "15m", "--dir", "src", "--setenv", "A=b=c", "--setenv", "TOKEN", "--stdin", "/dev/null",
		"--artifact", "*.xml", "--artifact", "out/**", "--timeout", "10m", "--grace", "2s", "--cpus", "1.5",
		"--memory", "2G", "--tasks", "99", "--output-limit", "1M", "--file-size", "2M", "--disk", "3M", "echo")
	require.Equal(t, 0, got.status, got.stderr)
	text, err := json.Marshal(asked)
	require.NoError(t, err)
	assert.JSONEq(t, `{"repository":"https://example.org/a.git","ref":"main","patch":"diff","environment":"auto","setup":"run = 'x'",
		"network":true,"secrets":{"FILE":"s3cret","TOKEN":"t0ken"},"hold_on_failure":"15m0s","commands":[{"args":["echo"],
		"directory":"src","env":{"A":"b=c","TOKEN":"t0ken"},"stdin":true,"artifacts":["*.xml","out/**"],
		"limits":{"timeout":"10m0s","grace":"2s","cpus":1.5,"memory":2147483648,"tasks":99,"output":1048576,
		"file_size":2097152,"disk":3145728}}]}`, string(text))
	assert.Contains(t, got.stderr, "`codex-runner shell aaaaaaaaaaaaaaaa` opens a shell in its sandbox")
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"run":                                      "run: COMMAND is missing: put it last, after --; see codex-runner run --help",
		"run --ref x a":                            "run: --ref is one of a repository: name it with --repo",
		"run --patch x a":                          "run: --patch changes a repository: name it with --repo",
		"run --patch - --stdin - a":                "run: --patch - and --stdin - want the same input",
		"run --dirty --clean a":                    "run: --dirty and --clean exclude each other: leave one out",
		"run --dirty a":                            "run: --dirty and --clean are about a directory: name it with --repo",
		"run --repo . --dirty --ref x a":           "run: --dirty has the changes of the commit that is checked out: leave it or --ref out",
		"run --session aaaaaaaaaaaaaaaa --dirty a": "run: --dirty is of a new session: leave it or --session out",
		"run --apply a":                            "run: --apply and --branch change a directory: name it with --repo",
		"run --repo . --branch x --detach a":       "run: --apply and --branch wait for COMMAND, and --detach does not",
		"run --session aaaaaaaaaaaaaaaa --apply a": "run: --apply and --branch are of a new session: `codex-runner diff ID`",
		"diff":                           "diff: ID is missing",
		"diff x":                         `diff: "x" is no session`,
		"diff aaaaaaaaaaaaaaaa --repo .": "diff: --repo is the repository of the branch: name that with --branch",
		"setup":                          "setup: want --print and no argument: `codex-runner run --repo .` runs the set-up",
		"run --session x a":              `run: "x" is no session: an ID has 16 characters of a-z and 2-7`,
		"run --session aaaaaaaaaaaaaaaa --env auto a": "run: --env is of a new session: leave it or --session out",
		"run --memory 2GB a":                          "run: --memory=2GB: want a positive number of bytes, such as",
		"run --cpus 0 a":                              "run: --cpus=0: want a positive number, such as 0.5 or 2",
		"run --cpus NaN a":                            "run: --cpus=NaN: want a positive number, such as 0.5 or 2",
		"run --tasks -1 a":                            "run: --tasks=-1: want a positive number",
		"run --port 80:x a":                           "run: --port=80:x: want PORT or LOCAL:PORT, such as 8080 or 3000:8080",
		"run --port 80 --network a":                   "run: --port and --network exclude each other: a server of COMMAND is on",
		"run --port 80 --detach a":                    "run: --port and --detach exclude each other: codex-runner port-forward ID",
		"run --port 80 --dry-run a":                   "run: --port and --dry-run exclude each other: nothing runs",
		"run --tty --detach a":                        "run: --tty and --detach exclude each other: a terminal has the input",
		"run --tty --stdin - a":                       "run: --tty and --stdin exclude each other: a terminal has the input",
		"port-forward aaaaaaaaaaaaaaaa":               "port-forward: PORT is missing",
		"port-forward aaaaaaaaaaaaaaaa 80:90:1":       "port-forward: 80:90:1: want PORT or LOCAL:PORT",
		"port-forward x 80":                           `port-forward: "x" is no session`,
		"run --setenv NOT_SET_HERE a":                 "run: --setenv=NOT_SET_HERE: there is no variable NOT_SET_HERE",
		"run --secret NOT_SET_HERE a":                 "run: --secret=NOT_SET_HERE: the secret NOT_SET_HERE is empty: name its file",
		"run --secret A=/nowhere a":                   "run: --secret=A=/nowhere: open /nowhere: no such file",
		"show x":                                      `show: "x" is no session`,
		"logs":                                        "logs: ID is missing",
		"logs aaaaaaaaaaaaaaaa --command 0":           "logs: --command=0: want a positive number, as show has it",
		"sessions --state gone":                       "sessions: --state=gone: want active, idle or closed",
		"sessions --limit 0":                          "sessions: --limit=0: want a positive number",
		"prune --older-than 0":                        "prune: --older-than=0: want a positive time with its unit",
		"logs aaaaaaaaaaaaaaaa --since-offset -1":     "logs: --since-offset=-1: want a number of bytes, 0 or more",
	} {
		got := try(t, strings.Fields(line)...)
		assert.Equal(t, cli.Usage, got.status, line)
		assert.Contains(t, got.stderr, "codex-runner "+want)
		assert.Empty(t, got.stdout)
	}
}

// Without a service there is an error that says how to find out why, and to start it: 125 of run, which is no status of a command's.
func TestNotRunning(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "api.sock")
	for line, status := range map[string]int{
		"run --socket %s a": 125, "status --socket %s": 1, "logs aaaaaaaaaaaaaaaa --socket %s": 1,
	} {
		got := try(t, strings.Fields(strings.ReplaceAll(line, "%s", socket))...)
		assert.Equal(t, status, got.status, line)
		assert.Contains(t, got.stderr, "codex-runner is not running: mend what `systemctl status codex-runner` says, "+
			"then systemctl reset-failed 'codex-runner.*' && systemctl start codex-runner\n")
	}
}

// A mistake in the settings ends the service with a status after which systemd does not restart it, and is what
// systemctl status shows.
func TestMalformedSettings(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	file := filepath.Join(dir, "runner.toml")
	for text, want := range map[string]string{
		"# mine\nmax_session = 3\n":   `:2: unknown key "max_session" (did you mean "max_sessions"?)`,
		"\n\nmax_sessions = 0\n":      ":3: max_sessions is 0: use 1 to 1000",
		"[hooks]\nbefore = [\"x\"]\n": `:2: hooks.before begins with "x": use the absolute path of a program`,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "notify"))
		got := try(t, "serve", "--config", file)
		assert.Equal(t, 78, got.status)
		assert.Contains(t, got.stderr, file+want)
		status := make([]byte, 4<<10)
		n, err := socket.Read(status)
		require.NoError(t, err)
		assert.Equal(t, "STATUS=Failed: "+file+want, strings.TrimSuffix(string(status[:n]), "\n"))
	}
}

func TestCompletions(t *testing.T) {
	daemon := apitest.Start(t, echo)
	got := try(t, "run", "--socket", daemon.Socket, "--detach", "echo")
	id := strings.TrimSpace(got.stdout)
	for line, want := range map[string]string{
		"show --socket %s ":                id + "\techo\n:4\n",
		"logs --socket %s x ":              ":4\n",
		"run --socket %s --session ":       id + "\techo\n:4\n",
		"run --env ":                       "auto\nsetup\nnone\nconda\nmicromamba\n:4\n",
		"sessions --state ":                "active\nidle\nclosed\n:4\n",
		"show --socket /nowhere/api.sock ": ":4\n",
	} {
		words := strings.Split(strings.ReplaceAll(line, "%s", daemon.Socket), " ")
		assert.Equal(t, want, try(t, append([]string{"__complete"}, words...)...).stdout, line)
	}
}

package dependencyconfig

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/settingsfile"
)

// check ends a file: a probe.
const check = "\n[probe]\ncheck = \"tcp:127.0.0.1:1\"\n"

// Every key but two has a default.
func TestDefaults(t *testing.T) {
	s, err := Load("testdata/minimal.toml")
	require.NoError(t, err)
	assert.Equal(t, &Settings{
		Name: "minimal", File: "testdata/minimal.toml", Description: "dependency minimal",
		Command: []string{"/usr/local/bin/server"}, Prepare: []string{}, Environment: map[string]string{},
		Network: Loopback, Lock: "/var/lib/codex-dependency/minimal/.lock",
		StartTimeout: 30 * time.Second, StopTimeout: 10 * time.Second, StopSignal: "SIGTERM",
		Probe: Probe{Check: "tcp:127.0.0.1:8080", Interval: 5 * time.Second, Timeout: time.Second, Failures: 3,
			Passes: 1},
	}, s)
	assert.Equal(t, 15*time.Second, s.Probe.Watchdog())
}

const server = "command = [\"server\"]\n"

// Each fault names its line, its key and the remedy.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key": {"comand = 1", `x.toml:1: unknown key "comand" (did you mean "command"?)`},
		"no command":  {"network = \"all\"" + check, `x.toml: command: is missing: name the program`},
		"no probe":    {server, `x.toml: probe.check: is missing: name how`},
		"newline": {"command = [\"server\", \"a\\nb\"]" + check,
			`x.toml:1: command: "a\nb" has the control character U+000A: a unit cannot pass it on; put`},
		"noncharacter": {"command = [\"server\", \"a\\uFFFEb\"]" + check,
			`x.toml:1: command: "a\ufffeb" has the noncharacter U+FFFE: a unit cannot pass it on`},
		"noncharacter of another plane": {"description = \"\\U0001FFFF\"\n" + server + check,
			`x.toml:1: description: "\U0001ffff" has the noncharacter U+1FFFF`},
		"placeholder": {`command = ["server", "{stat}"]` + check,
			`x.toml:1: command: "{stat}" is not a placeholder: use {state}, {runtime}, {credentials} or {name}`},
		"open brace": {`command = ["server", "{"]` + check, `x.toml:1: command: "{" is not a placeholder`},
		"relative": {`command = ["bin/server"]` + check,
			`x.toml:1: command: "bin/server" is not a program: its first`},
		"in a home": {`command = ["/home/a/server"]` + check,
			`x.toml:1: command: "/home/a/server" lies below /home, which`},
		"prefix":  {`command = ["-server"]` + check, `x.toml:1: command: "-server" is not a program`},
		"prepare": {server + `prepare = ["./init"]` + check, `x.toml:2: prepare: "./init" is not a program`},
		"description": {server + `description = 'a\'` + check,
			`x.toml:2: description: "a\\" begins or ends with a space`},
		"variable": {server + `environment = { "A B" = "" }` + check,
			`x.toml:2: environment.A B: "A B" is not the name of a`},
		"of systemd": {server + `environment = { NOTIFY_SOCKET = "x" }` + check,
			`x.toml:2: environment.NOTIFY_SOCKET: systemd sets`},
		"credential": {server + `credentials = { "a/b" = "/x" }` + check,
			`x.toml:2: credentials.a/b: "a/b" is not the name`},
		"its path": {server + `credentials = { key = "x" }` + check,
			`x.toml:2: credentials.key: "x" is not an absolute path`},
		"root": {server + `user = "root"` + check, `x.toml:2: user: a dependency does not run as root: name`},
		"our user": {server + `user = "cw-default"` + check,
			`x.toml:2: user: "cw-default" belongs to codex-proxy: name`},
		"no user": {server + `user = "A b"` + check, `x.toml:2: user: "A b" is not the name of a user; empty`},
		"own directory": {server + `directories = ["/etc/codex-proxy"]` + check,
			`x.toml:2: directories: "/etc/codex-proxy" is`},
		"a remote's home": {server + `directories = ["/var/lib/codex-remote/build"]` + check,
			`x.toml:2: directories: "/var/lib/codex-remote/build" is`},
		"all of it": {server + `directories = ["/"]` + check,
			`x.toml:2: directories: "/" is, or holds, a directory`},
		"long way": {server + `directories = ["/srv/../x"]` + check,
			`x.toml:2: directories: "/srv/../x" is not the shortest`},
		"quote": {server + `directories = ["/srv/\"x"]` + check,
			`x.toml:2: directories: "/srv/\"x" has a quote`},
		"temporary": {server + `directories = ["/tmp/x"]` + check,
			`x.toml:2: directories: "/tmp/x" lies below /tmp, which`},
		"network": {server + `network = "lan"` + check,
			`x.toml:2: network: "lan" is unknown: choose "none", "loopback"`},
		"port 0":     {server + `ports = [0]` + check, `x.toml:2: ports: 0 is not a port: use 1 to 65535`},
		"port 65536": {server + `ports = [65536]` + check, `x.toml:2: ports: 65536 is not a port`},
		"port twice": {server + `ports = [1, 1]` + check, `x.toml:2: ports: 1 stands there twice`},
		"port of nobody": {server + "network = \"none\"\nports = [1]" + check,
			`x.toml:3: ports: nothing reaches a port with`},
		"lock":         {server + `lock = "x"` + check, `x.toml:2: lock: "x" is not an absolute path`},
		"lock in /tmp": {server + `lock = "/tmp/x"` + check, `x.toml:2: lock: "/tmp/x" lies below /tmp`},
		"start_timeout": {server + `start_timeout = "0s"` + check,
			`x.toml:2: start_timeout: "0s" must be between 1s and 24h0m0s`},
		"no duration": {server + `stop_timeout = "soon"` + check,
			`x.toml:2: stop_timeout: "soon" is not a duration such as`},
		"stop_timeout": {server + `stop_timeout = "25h"` + check,
			`x.toml:2: stop_timeout: "25h0m0s" must be between 100ms and`},
		"stop_signal": {server + `stop_signal = "SIGKILL"` + check,
			`x.toml:2: stop_signal: "SIGKILL" is not one of SIGTERM`},
		"kind": {server + "[probe]\ncheck = \"ping:x\"",
			`x.toml:3: probe.check: "ping:x": unknown kind "ping": want`},
		"target": {server + "[probe]\ncheck = \"tcp:x\"",
			`x.toml:3: probe.check: "tcp:x": want tcp:HOST:PORT, such as`},
		"ready": {server + check + `ready = "x"`, `x.toml:5: probe.ready: "x": unknown kind "x"`},
		"interval": {server + check + `interval = "2h"`,
			`x.toml:5: probe.interval: "2h0m0s" must be between 100ms and 1h0m0s`},
		"timeout": {server + check + `timeout = "6s"`,
			`x.toml:5: probe.timeout: "6s" must be between 10ms and 5s`},
		"failures": {server + check + `failures = 1`, `x.toml:5: probe.failures: 1 must be between 2 and 100`},
		"no room": {server + check + "failures = 2\ntimeout = \"5s\"",
			`x.toml:6: probe.timeout: "5s" must be less than interval = "5s" with failures = 2`},
		"passes": {server + check + `passes = 0`, `x.toml:5: probe.passes: 0 must be between 1 and 100`},
		"status": {server + check + `status = [200]`, `x.toml:5: probe.status: only a probe http: has it`},
		"a status": {server + "[probe]\ncheck = \"http://x/\"\nstatus = [7]",
			`x.toml:4: probe.status: 7 is no status of HTTP: want`},
		"body":       {server + check + `body = "ok"`, `x.toml:5: probe.body: only a probe http: has it`},
		"ca":         {server + check + `ca = "/x"`, `x.toml:5: probe.ca: only the probes https: and grpcs: have it`},
		"wrong type": {"command = \"server\"" + check, `x.toml:1: command: `},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.toml", []byte(tc.text))
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

// No list and no file is without a bound.
func TestBounds(t *testing.T) {
	list := func(n int, item string) string { return "[" + strings.Repeat(item+", ", n) + "]" }
	var variables, credentials, ports strings.Builder
	for i := range 300 {
		fmt.Fprintf(&variables, "A%d = \"\", ", i)
		fmt.Fprintf(&credentials, "a%d = \"/x\", ", i)
		fmt.Fprintf(&ports, "%d, ", i+1)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"command": {"command = " + list(300, `"x"`) + check, "command: has more than 256 words"},
		"prepare": {server + "prepare = " + list(300, `"x"`) + check, "prepare: has more than 256 words"},
		"environment": {server + "environment = { " + strings.TrimSuffix(variables.String(), ", ") + " }" + check,
			"has more than 256 variables"},
		"credentials": {server + "credentials = { " + strings.TrimSuffix(credentials.String(), ", ") + " }" + check,
			"has more than 64"},
		"directories": {server + "directories = " + list(65, `"/x"`) + check, "directories: has more than 64"},
		"ports":       {server + "ports = [" + ports.String() + "]" + check, "ports: has more than 64"},
		"status": {server + "[probe]\ncheck = \"http://x/\"\nstatus = " + list(65, "200"),
			"probe.status: has more than 64"},
		"description": {server + "description = \"" + strings.Repeat("x", 257) + "\"" + check,
			"description: is longer than 256 bytes"},
		"path": {server + "lock = \"/" + strings.Repeat("x", 1024) + "\"" + check,
			"lock: the path is longer than 1024 bytes"},
		"file": {server + check + strings.Repeat("#", 64<<10), "x.toml: is longer than 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.toml", []byte(tc.text))
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

func TestNamesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range settingsfile.MaxFiles + 1 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/d-%03d.toml", dir, i), nil, 0o644))
	}
	names, err := Names(dir)
	assert.Len(t, names, settingsfile.MaxFiles)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "has more than 256 dependencies: d-256 and those after it are left out")
}

// Placeholders stand in every text that the server gets.
func TestPlaceholders(t *testing.T) {
	s, err := Parse("/etc/x/some.toml", []byte(`
command = ["a", "{state}", "{runtime}/s", "{credentials}", "{name}", "{{state}", "}"]
prepare = ["b", "{state}"]
environment = { A = "{name}" }
lock = "{state}/l"
[probe]
check = "unix:{runtime}/s"
ready = "exec:test -e {state}/r"
`))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "/var/lib/codex-dependency/some", "/run/codex-dependency/some/s",
		"/run/credentials/codex-dependency@some.service", "some", "{state}", "}"}, s.Command)
	assert.Equal(t, []string{"b", "/var/lib/codex-dependency/some"}, s.Prepare)
	assert.Equal(t, "some", s.Environment["A"])
	assert.Equal(t, "/var/lib/codex-dependency/some/l", s.Lock)
	assert.Equal(t, "unix:/run/codex-dependency/some/s", s.Probe.Check)
	assert.Equal(t, "exec:test -e /var/lib/codex-dependency/some/r", s.Probe.Ready)
}

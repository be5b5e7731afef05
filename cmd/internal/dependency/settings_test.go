package dependency

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// Each fault names its line, its key and the remedy.
func TestFaults(t *testing.T) {
	const probe = "\n[probe]\ncheck = \"tcp:127.0.0.1:1\"\n"
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":    {"comand = 1", `x.toml:1: unknown key "comand" (did you mean "command"?)`},
		"no command":     {"network = \"all\"" + probe, `x.toml: command: is missing: name the program`},
		"no probe":       {`command = ["server"]`, `x.toml: probe.check: is missing: name how`},
		"newline":        {"command = [\"server\", \"a\\nb\"]" + probe, `x.toml:1: command: "a\nb" has the control character U+000A`},
		"placeholder":    {`command = ["server", "{stat}"]` + probe, `x.toml:1: command: "{stat}" is not a placeholder: use {state}`},
		"variable":       {"command = [\"server\"]\nenvironment = { NOTIFY_SOCKET = \"x\" }" + probe, `x.toml:2: environment.NOTIFY_SOCKET: systemd sets`},
		"relative":       {"command = [\"bin/server\"]" + probe, `x.toml:1: command: "bin/server" is not a program`},
		"root":           {"command = [\"server\"]\nuser = \"root\"" + probe, `x.toml:2: user: a dependency does not run as root`},
		"port":           {"command = [\"server\"]\nports = [0]" + probe, `x.toml:2: ports: 0 is not a port: use 1 to 65535`},
		"own directory":  {"command = [\"server\"]\ndirectories = [\"/etc/codex-proxy\"]" + probe, `x.toml:2: directories: "/etc/codex-proxy" is`},
		"probe too slow": {"command = [\"server\"]" + probe + "timeout = \"6s\"", `x.toml:4: probe.timeout: "6s" must be between 10ms and 5s`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.toml", []byte(tc.text))
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

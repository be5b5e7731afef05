package bed

import (
	"context"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/units"
)

// Dependency is a server beside codex-proxy on the machine of a bed, by its file in
// /etc/codex-proxy/dependencies.
type Dependency struct {
	*Bed
	Name, Unit, File, State string
}

// NewDependency writes the file, and lets systemd read it. It does not start the unit.
func NewDependency(b *Bed, name, settings string) Dependency {
	b.T.Helper()
	d := Dependency{Bed: b, Name: name, Unit: units.Dependency(name),
		File: "/etc/codex-proxy/dependencies/" + name + ".toml", State: "/var/lib/codex-dependency/" + name}
	d.Write(settings)
	return d
}

// Write replaces the file, and lets systemd read it.
func (d Dependency) Write(settings string) {
	d.T.Helper()
	require.NoError(d.T, d.WriteFile(d.File, []byte(settings), 0o644))
	d.MustRun(d.T, "systemctl", "daemon-reload")
}

// Start must succeed. It returns how long systemctl took, which waits for READY=1.
func (d Dependency) Start() time.Duration {
	d.T.Helper()
	return d.Timed("start")
}

// Timed must succeed. It returns how long the command took, without the way into the machine.
func (d Dependency) Timed(verb string) time.Duration {
	d.T.Helper()
	out := d.MustRun(d.T, "bash", "-ec", `began=${EPOCHREALTIME/./}; systemctl "$@"
		echo $((${EPOCHREALTIME/./} - began))us`, "bash", verb, d.Unit)
	took, err := time.ParseDuration(Trim(out))
	require.NoError(d.T, err)
	return took
}

// RunID identifies the present run of the unit.
func (d Dependency) RunID() string {
	d.T.Helper()
	return d.Properties(d.Unit, "InvocationID")["InvocationID"]
}

// ReadyAgain waits until another run than that is ready, and returns since when it is, by
// clock.
func (d Dependency) ReadyAgain(before string) time.Duration {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(d.T.Context(), Bound)
	defer cancel()
	for pace := (await.Pace{}); ; pace.Pause(ctx) {
		now := d.Properties(d.Unit, "InvocationID", "ActiveState", "ActiveEnterTimestampMonotonic")
		if now["ActiveState"] == "active" && now["InvocationID"] != before {
			usec, err := strconv.ParseInt(now["ActiveEnterTimestampMonotonic"], 10, 64)
			require.NoError(d.T, err)
			return time.Duration(usec) * time.Microsecond
		}
		require.NoError(d.T, ctx.Err(), "%s never was ready again: %v\n%s", d.Unit, now, d.UnitJournal(d.Unit))
	}
}

const (
	// WebUnit and WebFile are of the dependency web.
	WebUnit = "codex-dependency@web.service"
	// WebFile is its file.
	WebFile = "/etc/codex-proxy/dependencies/web.toml"
	// Web accepts connections.
	Web = `description = "web"
command = ["/usr/bin/perl", "-MIO::Socket::INET", "-e", """$s = IO::Socket::INET->new(LocalAddr => '127.0.0.1:9099', \
    Listen => 5, ReuseAddr => 1) or die; while ($c = $s->accept) {{ close $c }"""]
ports = [9099]

[probe]
check = "tcp:127.0.0.1:9099"
interval = "1s"
`
)

// ServerUnit is the unit of the dependency server.
const ServerUnit = "codex-dependency@server.service"

package dependenciescli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

func TestCheck(t *testing.T) {
	b := newBed(t)
	b.write(t, "a", `command = ["/bin/sh", "-c", "it's"]
prepare = ["true"]
ports = [7, 8]
[probe]
check = "tcp:127.0.0.1:7"
ready = "exec:true"
passes = 2
`)
	unit := b.systemd.Unit(units.Dependency("a"))
	unit.SetSilently(unitstest.Properties{"UnitFileState": "disabled", "NeedDaemonReload": true})
	require.NoError(t, b.Check(t.Context(), "a"))
	assert.Equal(t, b.of("a").file+` is valid.

unit     codex-dependency@a.service, inactive (dead), disabled at boot; `+
		"systemd has not read a change: systemctl daemon-reload\n"+`command  /bin/sh -c 'it'\''s'
prepare  true
user     cd-a, a user of its own
writes   /var/lib/codex-dependency/a, /run/codex-dependency/a
hidden   /home, /root, the processes and /tmp of others
network  this machine alone (127.0.0.0/8, ::1)
check    tcp:127.0.0.1:7 every 5s, at most 1s each; ready after 2 passes
ready    once exec:true passes, too
hung     after 15s without a pass; then it is killed and restarted
start    within 30s
stop     SIGTERM, killed after 10s
ports    7: free, 8: free
lock     /var/lib/codex-dependency/a/.lock: free
`, b.stdout.String())
	assert.Empty(t, b.stderr.String())
}

func TestCheckOfAFileWithAFault(t *testing.T) {
	b := newBed(t)
	b.write(t, "a", "comand = []\n")
	assert.EqualError(t, b.Check(t.Context(), "a"), b.of("a").file+`:1: unknown key "comand" (did you mean "command"?)`)
	assert.ErrorContains(t, b.Check(t.Context(), "b"), "there is no such file")
	assert.Empty(t, b.stdout.String())
	b.write(t, "a", "command = [\"/no/such\"]\nuser = \"no-such-user\"\n[probe]\ncheck = \"tcp:127.0.0.1:7\"\n")
	assert.EqualError(t, b.Check(t.Context(), "a"), "codex-dependency@a.service cannot start")
	assert.Equal(t, []string{
		`fault: user: there is no user "no-such-user": install the program's package, or leave user empty for one of ` +
			"its own",
		"fault: command: /no/such: there is no such program: name the path of the one to run",
	}, lines(b.stderr.String()))
	assert.Contains(t, b.stdout.String(), "user     no-such-user\n")
}

// A port that another process holds prevents a start.
func TestCheckOfWhatIsHeld(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to look at other processes")
	}
	b := newBed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	socket, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	holder := exec.Command("sleep", "1000")
	holder.ExtraFiles = []*os.File{socket}
	require.NoError(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	require.NoError(t, errors.Join(socket.Close(), l.Close()), "the other process has it alone")
	b.write(t, "a", fmt.Sprintf("ports = [%d]\n%s", port, simple))
	assert.Error(t, b.Check(t.Context(), "a"))
	assert.Contains(t, b.stdout.String(), fmt.Sprintf("ports    %d: held by another process\n", port))
	assert.Contains(t, b.stderr.String(), fmt.Sprintf("fault: port %d is held by pid %d (sleep 1000)", port,
		holder.Process.Pid))
}

// As the command of a unit the check always fails: there is no drop-in with another command.
func TestReport(t *testing.T) {
	b := newBed(t)
	b.write(t, "a", "x = 1\ny = 2\n")
	assert.ErrorContains(t, b.Report("a", nil), `a.toml:1: unknown key "x"`)
	b.write(t, "a", simple)
	assert.EqualError(t, b.Report("a", nil), b.of("a").file+" is valid, but systemd has not read it: systemctl "+
		"daemon-reload, then start again")
	assert.Empty(t, b.stdout.String())
}

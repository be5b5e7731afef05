package dependenciescli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/dependencies/dependency"
	"codex-proxy/internal/reach"
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
	assert.Equal(t, b.fileOf("a")+` is valid.

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
	assert.EqualError(t, b.Check(t.Context(), "a"), b.fileOf("a")+`:1: unknown key "comand" (did you mean "command"?)`)
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
	assert.EqualError(t, b.Report("a", nil), b.fileOf("a")+" is valid, but systemd has not read it: systemctl "+
		"daemon-reload, then start again")
	assert.Empty(t, b.stdout.String())
}

func TestFaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	me, err := user.Current()
	require.NoError(t, err)
	for _, tc := range []struct {
		change func(*dependency.Settings)
		want   []string
	}{
		{func(*dependency.Settings) {}, nil},
		{func(s *dependency.Settings) { s.User = me.Username }, nil},
		{func(s *dependency.Settings) { s.Command[0] = "sh" }, nil},
		{func(s *dependency.Settings) { s.Command[0], s.Environment["PATH"] = "sh", dir },
			[]string{"command: sh: there is no such program in " + dir + ": install it, or name its path"}},
		{func(s *dependency.Settings) { s.Command[0] = plain },
			[]string{"command: " + plain + ": it is not executable"}},
		{func(s *dependency.Settings) { s.Prepare = []string{"/no/such"} },
			[]string{"prepare: /no/such: there is no such program: name the path of the one to run"}},
		{func(s *dependency.Settings) { s.Directories = []string{dir} }, nil},
		{func(s *dependency.Settings) { s.Directories = []string{plain} },
			[]string{"directories: " + plain + ": it is no directory"}},
		{func(s *dependency.Settings) { s.Directories = []string{dir + "/x"} }, []string{"directories: " + dir +
			"/x: there is no such directory: make it, for the user that the dependency runs as"}},
		{func(s *dependency.Settings) {
			s.Credentials = map[string]string{"b": "/no", "a": dir, "c": plain}
		},
			[]string{"credentials.a: " + dir + ": it is no file",
				"credentials.b: /no: there is no such file: make it"}},
		{func(s *dependency.Settings) { s.Probe.CA = "/no" },
			[]string{"probe.ca: /no: there is no such file: make it"}},
	} {
		s := &dependency.Settings{Command: []string{"/bin/sh"}, Environment: map[string]string{}}
		tc.change(s)
		assert.Equal(t, tc.want, faultsOf(s))
	}
}

// The modes of the whole path count, for the owner, the group and all others.
func TestReaches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	top := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(top), 0o755))
	dir, program := filepath.Join(top, "d"), filepath.Join(top, "d", "p")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	require.NoError(t, os.Chown(program, 7, 8))
	require.NoError(t, os.Chown(dir, 7, 8))
	owner, group, other := account(7, 1), account(1, 1, 8), account(1, 1)
	for _, tc := range []struct {
		dir, program os.FileMode
		may          [3]bool
	}{
		{0o755, 0o755, [3]bool{true, true, true}},
		{0o755, 0o750, [3]bool{true, true, false}},
		{0o750, 0o755, [3]bool{true, true, false}},
		{0o700, 0o755, [3]bool{true, false, false}},
		{0o755, 0o645, [3]bool{false, false, true}},
	} {
		require.NoError(t, os.Chmod(dir, tc.dir))
		require.NoError(t, os.Chmod(program, tc.program))
		assert.Equal(t, tc.may, [3]bool{reach.Check(owner, program, 1) == nil, reach.Check(group, program, 1) == nil,
			reach.Check(other, program, 1) == nil}, "%v %v", tc.dir, tc.program)
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	assert.NoError(t, reach.Check(owner, dir, 2))
	assert.EqualError(t, reach.Check(other, dir, 2), "the user has no permission for "+dir)
	assert.True(t, errors.Is(reach.Check(other, dir+"/x", 2), os.ErrNotExist))
}

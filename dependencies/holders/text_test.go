package holders

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testdata/net has tables of Linux 6.1.
func TestListeningSockets(t *testing.T) {
	table, err := os.ReadFile("testdata/net/tcp")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tcp"), table, 0o600))
	inodes, err := listening(dir, []int{7233})
	require.NoError(t, err)
	assert.Equal(t, map[uint64]string{7233001: "port 7233"}, inodes, "without IPv6")
	inodes, err = listening("testdata/net", []int{7233, 22, 80})
	require.NoError(t, err)
	assert.Equal(t, map[uint64]string{7233001: "port 7233", 7233003: "port 7233", 22001: "port 22"}, inodes)
	for _, bad := range []string{"", "x", "heading\n1: x 0A 0A 0A 0A 0A 0A 0A y\n1: a:x 0 0A 0 0 0 0 0 0 0\n"} {
		got := map[uint64]string{}
		require.NoError(t, listeners(strings.NewReader(bad), []int{7233}, got))
		assert.Empty(t, got)
	}
	assert.Error(t, listeners(strings.NewReader("heading\n"+strings.Repeat("x", 1<<20)), []int{1}, map[uint64]string{}))
}

func TestUnitOfAProcess(t *testing.T) {
	for _, c := range []struct{ groups, unit string }{
		{"0::/system.slice/temporal.service\n", "temporal.service"},
		{"0::/user.slice/user-0.slice/session-3.scope\n", "session-3.scope"},
		{"0::/user.slice/user-1000.slice/user@1000.service/app.slice/tmux.scope\n", "user@1000.service"},
		{"0::/init.scope\n", "init.scope"},
		{"0::/system.slice/system-codex\\x2ddependency.slice/codex-dependency@a.service/.control",
			"codex-dependency@a.service"},
		{"0::/_cpu.service\n", "cpu.service"},
		{"0::/\n", ""},
		{"", ""},
		{"12:pids:/x.service\n1:name=systemd:/system.slice/cron.service\n0::/system.slice/y.service", "cron.service"},
		{"0::/../../docker-ab.scope\n", "docker-ab.scope"},
	} {
		assert.Equal(t, c.unit, unitOf(c.groups), c.groups)
	}
}

func TestDescriptorsOfAProcess(t *testing.T) {
	const locked = "pos:\t0\nflags:\t0100002\nmnt_id:\t30\nlock:\t1: FLOCK  ADVISORY  WRITE 812 00:1f:5 0 EOF\n"
	assert.True(t, locksFile(locked))
	assert.True(t, writes(locked))
	const read = "pos:\t0\nflags:\t0100000\nlock:\t1: POSIX  ADVISORY  WRITE 812 00:1f:5 0 EOF\n"
	assert.False(t, locksFile(read))
	assert.False(t, writes(read))
	assert.True(t, writes("flags:\t0102001\n"), "O_WRONLY|O_APPEND")
	assert.False(t, writes("flags:\t012000000\n"), "O_PATH")
	for _, bad := range []string{"", "flags:", "flags:\tx", "lock:", "lock:\t1:"} {
		assert.False(t, locksFile(bad) || writes(bad), bad)
	}
}

// A process chooses its command line, and the text goes to journals and terminals.
func TestTextOfAHolder(t *testing.T) {
	proc := t.TempDir()
	dir := filepath.Join(proc, "812")
	require.NoError(t, os.Mkdir(dir, 0o700))
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("comm", "worker\n")
	h := Holder{PID: 812}
	h.add("port 7233", aPort)
	h.add("port 7233", aPort)
	h.describe(proc)
	assert.Equal(t, "port 7233 is held by pid 812 (worker)", h.String())
	write("cmdline", "temporal\x00server\x00\x1b[31mstart-dev\x00")
	write("cgroup", "0::/user.slice/session-3.scope\n")
	h.describe(proc)
	assert.Equal(t, "port 7233 is held by pid 812 (temporal server ?[31mstart-dev), unit session-3.scope", h.String())
	write("cmdline", strings.Repeat("x", 5000))
	h.describe(proc)
	assert.Len(t, h.Command, longest+len("..."))
	h.PID = 0
	assert.Equal(t, "port 7233 is held by a process that cannot be seen from here", h.String())
}

// The user of a server chooses the names of its files.
func TestNamesOfFilesInTheText(t *testing.T) {
	h := Holder{PID: 812, Command: "x"}
	h.add("/d/\x1b]0;x\a\nb\u00e9", aFile)
	assert.Equal(t, "/d/?]0;x??b? is held by pid 812 (x)", h.String())
	h.add("/d/"+strings.Repeat("a", 4000), aFile)
	assert.Less(t, len(h.String()), 300)
}

// Processes of the server's own unit hold neither ports nor data against it, but the lock.
func TestOwnProcesses(t *testing.T) {
	s := &search{found: map[int]*Holder{}, locked: "/x", sockets: map[uint64]string{1: "port 1", 2: "port 2"}}
	own := os.Getpid()
	s.add(own, "port 1", aPort)
	s.add(own, lockName("/x"), aLock)
	list := s.holders("")
	require.Len(t, list, 2)
	assert.Contains(t, list[0].String(), "the lock /x and port 1 are held by pid ")
	assert.Equal(t, "port 2 is held by a process that cannot be seen from here", list[1].String())
	h := Holder{PID: own}
	h.describe("/proc")
	if h.Unit == "" {
		h.Unit = "none"
	}
	s.found = map[int]*Holder{}
	s.add(own, "port 1", aPort)
	s.add(own, "port 2", aPort)
	s.locked = ""
	for _, other := range s.holders(h.Unit) {
		assert.Equal(t, "none", h.Unit, "%v", other)
	}
}

// Of a service one process is named, which is not our shim, and each process outside of services.
func TestOneProcessOfAService(t *testing.T) {
	of := func(pid int, unit string, held ...string) Holder {
		h := Holder{PID: pid, Command: "x", Unit: unit}
		for _, what := range held {
			h.add(what, aFile)
		}
		return h
	}
	shim := of(1, "a.service", "lock")
	shim.Command = "/usr/bin/codex-proxy notify-exec -- x"
	list := onePerServer([]Holder{
		shim, of(2, "a.service", "lock", "file"), of(3, "a.service", "other"),
		of(4, "s.scope", "lock"), of(5, "s.scope", "lock"), of(6, "", "lock"), of(7, "", "lock"),
		of(7, "", "file"),
	})
	var texts []string
	for _, h := range list {
		texts = append(texts, h.String())
	}
	assert.Equal(t, []string{
		"file, lock and other are held by pid 2 (x), unit a.service", "lock is held by pid 4 (x), unit s.scope",
		"lock is held by pid 5 (x), unit s.scope", "lock is held by pid 6 (x)", "file and lock are held by pid 7 (x)",
	}, texts)
}

func TestUnreadableTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := listening(file, []int{1})
	assert.ErrorContains(t, err, "cannot look for listening sockets")
	var path *os.PathError
	assert.False(t, errors.As(err, &path) && path.Path == "", err)
}

// The top process has the same program and unit, and is no shell on a terminal.
func TestTopProcess(t *testing.T) {
	proc := t.TempDir()
	process := func(pid, stat, unit, program string) {
		t.Helper()
		dir := filepath.Join(proc, pid)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(proc, program), nil, 0o600))
		require.NoError(t, os.Symlink("../"+program, filepath.Join(dir, "exe")))
		for file, text := range map[string]string{"stat": pid + " (a) b) S " + stat + " -1 4194304\n",
			"cgroup": "0::/" + unit + "\n", "cmdline": "program\x00" + pid + "\x00"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
	}
	process("10", "1 10 10 34816", "s.scope", "bash") // the shell of a person
	process("11", "10 11 10 34816", "s.scope", "bash")
	process("12", "11 11 10 34816", "s.scope", "bash")
	process("20", "10 20 20 0", "s.scope", "postgres")
	process("21", "20 21 21 0", "s.scope", "postgres")
	process("30", "21 21 21 0", "other.service", "postgres")
	process("40", "99 40 40 0", "s.scope", "postgres")
	process("50", "50 50 50 0", "s.scope", "postgres") // a loop ends
	process("60", "x", "s.scope", "postgres")
	for pid, top := range map[int]int{12: 11, 11: 11, 21: 20, 20: 20, 30: 30, 40: 40, 50: 50, 60: 60, 70: 70} {
		h := Holder{PID: pid}
		h.describe(proc)
		h.nameTop(proc)
		assert.Equal(t, top, h.PID, pid)
		if pid != 70 { // has ended
			assert.Equal(t, "program "+strconv.Itoa(top), h.Command)
		}
	}
}

package holders

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inherits starts a process with open files, which ends with the test.
func inherits(t *testing.T, files ...*os.File) *exec.Cmd {
	t.Helper()
	child := exec.Command("sh", "-c", "read end # what holds it")
	child.ExtraFiles = files
	end, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = end.Close()
		_ = child.Wait() // read fails at the end of its input
	})
	for _, f := range files {
		require.NoError(t, f.Close())
	}
	return child
}

// found returns the texts of the holders of a claim.
func found(t *testing.T, c Claim) []string {
	t.Helper()
	list, err := c.Holders(t.Context())
	require.NoError(t, err)
	texts := []string{}
	for _, h := range list {
		texts = append(texts, h.String())
	}
	return texts
}

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags|os.O_CREATE, 0o600)
	require.NoError(t, err)
	return f
}

// isHeld asserts that a text names what is held, and the process of child with its command.
func isHeld(t *testing.T, text, what string, child *exec.Cmd) {
	t.Helper()
	assert.Contains(t, text, fmt.Sprintf("%s held by pid %d (sh -c read end # what holds it)", what, child.Process.Pid))
}

func TestHolderOfAPort(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			l, err := net.Listen("tcp", address)
			require.NoError(t, err)
			_, text, _ := net.SplitHostPort(l.Addr().String())
			port, err := strconv.Atoi(text)
			require.NoError(t, err)
			socket, err := l.(*net.TCPListener).File()
			require.NoError(t, err)
			require.NoError(t, l.Close())
			child := inherits(t, socket)
			texts := found(t, Claim{Ports: []int{port, 1}})
			require.Len(t, texts, 1)
			isHeld(t, texts[0], fmt.Sprintf("port %d is", port), child)
		})
	}
}

// A connection from the port, or to it, does not listen on it.
func TestAConnectionHoldsNoPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	assert.Empty(t, found(t, Claim{Ports: []int{port, conn.LocalAddr().(*net.TCPAddr).Port}}))
}

// The processes that have inherited the lock hold it, also after the end of the process that took it; a process that
// has the file open without the lock does not.
func TestHolderOfALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	claim := Claim{Lock: path}
	assert.Empty(t, found(t, claim), "the file does not exist")
	inherits(t, open(t, path, os.O_RDWR))
	assert.Empty(t, found(t, claim))
	lock := open(t, path, os.O_RDWR)
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	child := inherits(t, lock)
	texts := found(t, claim)
	require.Len(t, texts, 1)
	isHeld(t, texts[0], "the lock "+path+" is", child)
	claim.Data = []string{filepath.Dir(path)}
	assert.Equal(t, texts, found(t, claim), "the lock itself is no data")
}

func TestALockIsAFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink("/dev/null", link))
	for _, path := range []string{dir, pipe, link, "/dev/null"} {
		_, err := Claim{Lock: path}.Holders(t.Context())
		assert.ErrorContains(t, err, "cannot look at the lock "+path+": it is not a file")
	}
}

// A process that writes to a file of the data holds it, whatever the path by which it has opened the file.
func TestHolderOfData(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	path := filepath.Join(dir, "a", "b", "data.db")
	claim := Claim{Data: []string{dir, filepath.Join(dir, "none")}}
	assert.Empty(t, found(t, claim))
	inherits(t, open(t, path, os.O_RDONLY), open(t, filepath.Join(elsewhere, "x"), os.O_RDWR))
	assert.Empty(t, found(t, claim), "it only reads, or writes elsewhere")
	require.NoError(t, os.Link(path, filepath.Join(elsewhere, "hard")))
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND} {
		child := inherits(t, open(t, filepath.Join(elsewhere, "hard"), flags))
		texts := strings.Join(found(t, claim), "\n")
		isHeld(t, texts, path+" is", child)
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // it was killed
	}
}

// The names of a directory lead to nothing outside of it.
func TestLinksInDataAreNotFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	inherits(t, open(t, filepath.Join(elsewhere, "x"), os.O_RDWR))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "x"), filepath.Join(dir, "x")))
	assert.Empty(t, found(t, Claim{Data: []string{dir}}))
	link := filepath.Join(dir, "link")
	assert.Len(t, found(t, Claim{Data: []string{link}}), 1, "the path of the data itself may be a link")
}

// A server is named by its top process, also if only processes that it has forked hold the data. The program that has
// started it, this test, is no part of the server.
func TestTopProcessIsNamed(t *testing.T) {
	dir := t.TempDir()
	top := exec.Command("sh", "-c", `(read end) <&3 2>$0/a & (read end) <&3 2>$0/b & wait # the server`, dir)
	end, hold, err := os.Pipe()
	require.NoError(t, err)
	top.ExtraFiles = []*os.File{end}
	require.NoError(t, top.Start())
	t.Cleanup(func() { _, _, _ = end.Close(), hold.Close(), top.Wait() })
	both := dir + "/a and " + dir + "/b are held by "
	require.Eventually(t, func() bool { // the children open their files beside the parent
		return strings.Contains(strings.Join(found(t, Claim{Data: []string{dir}}), "\n"), both)
	}, time.Minute, time.Millisecond)
	texts := found(t, Claim{Data: []string{dir}})
	require.Len(t, texts, 1)
	assert.Contains(t, texts[0], fmt.Sprintf("%spid %d (sh -c ", both, top.Process.Pid))
}

func TestDataIsBounded(t *testing.T) {
	dir := t.TempDir()
	open(t, filepath.Join(dir, "first"), os.O_RDWR)
	deep := filepath.Join(dir, strings.Repeat("d/", deepest+2))
	require.NoError(t, os.MkdirAll(deep, 0o700))
	open(t, filepath.Join(deep, "deepest"), os.O_RDWR)
	files, err := filesBelow(t.Context(), "", []string{dir})
	require.NoError(t, err)
	assert.Len(t, files, 1)
	many := map[file]string{}
	for n := range mostFiles {
		many[file{1 << 60, uint64(n)}] = "x"
	}
	assert.ErrorIs(t, addFiles(t.Context(), many, "", dir), errMany)
}

// One process with several things is one holder, with the lock first.
func TestHolderOfSeveralThings(t *testing.T) {
	dir := t.TempDir()
	lock := open(t, filepath.Join(dir, "lock"), os.O_RDWR)
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	socket, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	data := open(t, filepath.Join(dir, "a.db"), os.O_RDWR)
	child := inherits(t, data, lock, socket, open(t, filepath.Join(dir, "b.db"), os.O_RDWR))
	texts := found(t, Claim{Ports: []int{port}, Lock: filepath.Join(dir, "lock"), Data: []string{dir}})
	require.Len(t, texts, 1)
	isHeld(t, texts[0], fmt.Sprintf("the lock %s/lock, port %d, %s/a.db and 1 more are", dir, port, dir), child)
}

// The paths may begin at another root, which the texts do not name.
func TestRootOfAClaim(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "data"), 0o700))
	lock := open(t, filepath.Join(root, "data", ".lock"), os.O_RDWR)
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	child := inherits(t, lock, open(t, filepath.Join(root, "data", "a.db"), os.O_RDWR))
	texts := found(t, Claim{Root: root, Lock: "/data/.lock", Data: []string{"/data"}})
	require.Len(t, texts, 1)
	isHeld(t, texts[0], "the lock /data/.lock and /data/a.db are", child)
}

// Holders ends with its context.
func TestHoldersAreBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Claim{Data: []string{t.TempDir()}}.Holders(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}

// BenchmarkHolders looks at a thousand processes beside those of the machine.
func BenchmarkHolders(b *testing.B) {
	dir := b.TempDir()
	for n := range 100 {
		require.NoError(b, os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600))
	}
	for range 1000 {
		child := exec.Command("sleep", "600")
		require.NoError(b, child.Start())
		b.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	}
	claim := Claim{Ports: []int{1}, Lock: filepath.Join(dir, "1"), Data: []string{dir}}
	before := used(b)
	for b.Loop() {
		_, err := claim.Holders(b.Context())
		require.NoError(b, err)
	}
	b.ReportMetric(float64(used(b)-before)/float64(b.N)/1e6, "cpu-ms/op") // of two threads or more
	b.ReportMetric(float64(len(processes())), "processes")
}

// used is the CPU time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

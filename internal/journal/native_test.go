package journal

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// listen is a journal that the test reads.
func listen(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func read(t *testing.T, l *net.UnixConn) string {
	t.Helper()
	b, oob := make([]byte, 4096), make([]byte, 128)
	require.NoError(t, l.SetReadDeadline(time.Now().Add(time.Minute)))
	size, attached, _, _, err := l.ReadMsgUnix(b, oob)
	require.NoError(t, err)
	if attached == 0 {
		return string(b[:size])
	}
	assert.Zero(t, size)
	messages, err := unix.ParseSocketControlMessage(oob[:attached])
	require.NoError(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	f := os.NewFile(uintptr(fds[0]), "entry")
	defer f.Close()
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL, seals,
		"the journal accepts only sealed files")
	entry, err := io.ReadAll(io.NewSectionReader(f, 0, 10<<20))
	require.NoError(t, err)
	return string(entry)
}

func TestNative(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l := listen(t, path)
	n := &native{path: path}
	require.NoError(t, n.send("hello", journal.PriInfo, []field{{"A", "b"}}))
	assert.Equal(t, "PRIORITY=6\nMESSAGE=hello\nA=b\n", read(t, l))
	require.NoError(t, n.send("two\nlines", journal.PriErr, nil))
	assert.Equal(t, "PRIORITY=3\nMESSAGE\n\x09\x00\x00\x00\x00\x00\x00\x00two\nlines\n", read(t, l))

	large := strings.Repeat("x", 1<<20)
	require.NoError(t, n.send(large, journal.PriErr, nil))
	assert.Equal(t, "PRIORITY=3\nMESSAGE="+large+"\n", read(t, l))
	require.NoError(t, n.send("hello", journal.PriInfo, nil), "goes on")
	read(t, l)

	require.NoError(t, l.Close())
	require.Error(t, n.send("hello", journal.PriInfo, nil), "nobody listens")
	require.NoError(t, os.Remove(path))
	l = listen(t, path)
	require.NoError(t, n.send("hello again", journal.PriInfo, nil))
	assert.Contains(t, read(t, l), "hello again")
}

// Only the first entry waits for a journal that stands still.
func TestAJournalThatStandsStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l := listen(t, path)
	n := &native{path: path, program: Runner}
	taken := -1
	for ; n.missed == 0; taken++ {
		require.NoError(t, n.send("taken", journal.PriInfo, nil))
	}
	began := time.Now() // if each waited, it would be for 100 times patience
	for range 99 {
		require.NoError(t, n.send("missed", journal.PriInfo, nil))
	}
	require.NoError(t, n.send(strings.Repeat("x", 1<<20), journal.PriInfo, nil))
	assert.Less(t, time.Since(began), 50*patience)

	for range taken {
		require.Contains(t, read(t, l), "MESSAGE=taken")
	}
	require.NoError(t, n.send("taken again", journal.PriInfo, nil))
	assert.Contains(t, read(t, l), "PRIORITY=4\nMESSAGE=the journal stood still, and entries of codex-runner are "+
		"missing: 101\n")
	assert.Contains(t, read(t, l), "MESSAGE=taken again")
	require.NoError(t, n.send("and again", journal.PriInfo, nil))
	assert.Contains(t, read(t, l), "MESSAGE=and again")
}

// The stream of a journal that stands still blocks in the end.
func TestStreamDoesNotWait(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	stderr, journald := os.NewFile(uintptr(fds[0]), "stderr"), os.NewFile(uintptr(fds[1]), "journal")
	defer stderr.Close()
	defer journald.Close()
	s := newStream(stderr)
	_, err = io.WriteString(s, "first")
	require.NoError(t, err)
	for line := strings.Repeat("x", 1<<10); err == nil; {
		_, err = io.WriteString(s, line)
	}
	require.ErrorIs(t, err, unix.EAGAIN)
	b := make([]byte, 5)
	_, err = io.ReadFull(journald, b)
	require.NoError(t, err)
	assert.Equal(t, "first", string(b))

	var other strings.Builder
	assert.Equal(t, &other, newStream(&other), "what is no file is as it was")
}

package workers

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnnotator(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer l.Close()
	a := annotator{socket: l.Addr().String()}
	defer a.reset()
	for range 2 { // once for each worker process
		a.tell("t1", "r1")
		a.tell("t2", "r2")
		conn, err := l.Accept()
		require.NoError(t, err)
		lines := bufio.NewScanner(conn)
		for _, want := range []string{"codex-proxy annotations", "t1 r1", "t2 r2"} {
			require.True(t, lines.Scan())
			assert.Equal(t, want, lines.Text())
		}
		a.reset()
		assert.False(t, lines.Scan())
		require.NoError(t, conn.Close())
	}
}

// Without the shim codex itself is there, which takes it for a bad request: it is
// asked once.
func TestAnnotatorBeforeSomethingElse(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer l.Close()
	a := annotator{socket: l.Addr().String()}
	a.tell("t1", "r1")
	conn, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { a.tell("t2", "r2"); return a.off }, time.Second, time.Millisecond)
	a.tell("t3", "r3")
	require.NoError(t, l.(*net.UnixListener).SetDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = l.Accept()
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// What is not there is not asked for twice.
func TestAnnotatorWithoutAShim(t *testing.T) {
	a := annotator{socket: filepath.Join(t.TempDir(), "none")}
	a.tell("t", "r")
	assert.True(t, a.off)
	a.reset()
	assert.False(t, a.off)
}

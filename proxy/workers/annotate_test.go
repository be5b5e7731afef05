package workers

import (
	"bufio"
	"net"
	"path/filepath"
	"testing"

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

// Nobody waits for what is not there, twice.
func TestAnnotatorWithoutAShim(t *testing.T) {
	a := annotator{socket: filepath.Join(t.TempDir(), "none")}
	a.tell("t", "r")
	assert.False(t, a.resume.IsZero())
	a.reset()
	assert.True(t, a.resume.IsZero())
}

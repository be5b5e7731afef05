package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/pty"
)

func attributes(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	a, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return *a
}

func TestTerminal(t *testing.T) {
	emulator, stream := pty.Open(t)
	before := attributes(t, stream)
	terminal, err := Open(stream)
	require.NoError(t, err)
	defer terminal.Close()
	rows, columns := terminal.Size()
	assert.Zero(t, rows+columns, "not known")
	pty.Resize(t, emulator, 50, 132)
	rows, columns = terminal.Size()
	assert.Equal(t, []uint16{50, 132}, []uint16{rows, columns})

	require.NoError(t, terminal.Raw())
	_, err = emulator.Write([]byte("\x03\r")) // Ctrl-C
	require.NoError(t, err)
	typed := make([]byte, 2)
	n, err := terminal.Read(typed)
	require.NoError(t, err)
	assert.Equal(t, "\x03\r", string(typed[:n]))
	_, err = terminal.Write([]byte("a\n"))
	require.NoError(t, err)
	shown := make([]byte, 4)
	n, err = emulator.Read(shown)
	require.NoError(t, err)
	assert.Equal(t, "a\n", string(shown[:n]), "without an echo, and as it was written")
	require.NoError(t, terminal.Restore())
	require.NoError(t, terminal.Restore(), "once more it does nothing")
	assert.Equal(t, before, attributes(t, stream))
}

func TestEndReading(t *testing.T) {
	_, stream := pty.Open(t)
	terminal, err := Open(stream)
	require.NoError(t, err)
	defer terminal.Close()
	ended := make(chan error)
	go func() {
		_, err := terminal.Read(make([]byte, 1))
		ended <- err
	}()
	require.NoError(t, terminal.EndReading())
	assert.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
}

func TestNoTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer file.Close()
	for _, stream := range []any{file, strings.NewReader(""), nil} {
		_, err := Open(stream)
		assert.ErrorIs(t, err, ErrNone)
	}
}

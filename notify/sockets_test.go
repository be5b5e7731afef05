package notify

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInheritedForAnother(t *testing.T) {
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("LISTEN_FDNAMES", "x")
	sockets, err := Inherited()
	require.NoError(t, err)
	assert.Empty(t, sockets)
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_, set := os.LookupEnv(name)
		assert.False(t, set, "%s is still set", name)
	}
	_, err = sockets.Listeners("x")
	assert.ErrorContains(t, err, "passed none")
}

func TestListenersByName(t *testing.T) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	sockets := Sockets{"one": {one}, "two": {}}
	got, err := sockets.Listeners("one")
	require.NoError(t, err)
	assert.Equal(t, []net.Listener{one}, got)
	_, err = sockets.Listeners("three")
	assert.ErrorContains(t, err, `"three" among one, two`)
	assert.NoError(t, sockets.Close())
	_, err = one.Accept()
	assert.ErrorIs(t, err, net.ErrClosed)
}

// A command sees neither the protocols' variables nor the sockets.
func TestCommandInheritsNothing(t *testing.T) {
	s := newShim(t, "-", "echo.socket", "inherited")
	s.listen(t)
	// The variables of a watchdog would make the shim ping, so they are not set.
	s.cmd.Env = append(s.cmd.Env, "LISTEN_PIDFDID=1")
	assert.Empty(t, s.output(t))
}

func TestInheritedDatagramSocket(t *testing.T) {
	s := newShim(t, "-", "-", "exit", "0")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(t.TempDir(), "s")})
	require.NoError(t, err)
	defer conn.Close()
	f, err := conn.File()
	require.NoError(t, err)
	defer f.Close()
	s.pass(f, "dgram")
	err = s.cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Contains(t, s.stderr.String(), `cannot listen on the inherited socket "dgram"`)
}

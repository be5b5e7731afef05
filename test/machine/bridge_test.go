package machine

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Machines on a bridge reach each other. A cut one does not, and an open connection goes on after the heal.
func TestBridge(t *testing.T) {
	t.Parallel()
	echo := []File{
		{Path: "/etc/systemd/system/echo.socket", Data: []byte("[Socket]\nListenStream=7\nAccept=yes\n")},
		{Path: "/etc/systemd/system/echo@.service", Data: []byte("[Service]\nStandardInput=socket\nExecStart=cat\n")},
	}
	server, client := Boot(t, Host(), Options{Files: echo}), Boot(t, Host(), Options{})
	b := NewBridge(t)
	b.Address(t, "10.0.0.254/24")
	b.Plug(t, server, "10.0.0.1/24")
	b.Plug(t, client, "10.0.0.2/24")
	server.MustRun(t, "systemctl", "start", "echo.socket")

	dialer := func() (net.Conn, error) { return client.DialContext(t.Context(), "tcp", "10.0.0.1:7") }
	conn, err := dialer()
	require.NoError(t, err)
	defer conn.Close()
	answer := make([]byte, 5)
	ask := func() {
		_, err := conn.Write([]byte("hello"))
		require.NoError(t, err)
	}
	read := func(patience time.Duration) error {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err := conn.Read(answer)
		return err
	}
	ask()
	require.NoError(t, read(20*time.Second))
	assert.Equal(t, "hello", string(answer))

	b.Cut(t, server)
	ask()
	assert.ErrorIs(t, read(300*time.Millisecond), os.ErrDeadlineExceeded)
	b.Heal(t, server)
	require.NoError(t, read(time.Minute))
	assert.Equal(t, "hello", string(answer))
}

package socketservice

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A connection that nobody serves does not wait in its socket, where it would start the service again.
func TestTurnAway(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	require.NoError(t, err)
	conn, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		turnAway(ctx, l)
		close(ended)
	}()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	cancel()
	<-ended
	_, err = net.Dial("unix", l.Addr().String())
	assert.Error(t, err)
}

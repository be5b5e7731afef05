package wire

import (
	"bytes"
	"crypto/rand"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// piped is a connection that keeps what is written.
type piped struct{ bytes.Buffer }

func (*piped) Close() error { return nil }

func TestPortStream(t *testing.T) {
	sent := make([]byte, 3*maxPiece+1)
	_, _ = rand.Read(sent)
	var conn piped
	s := NewPortStream(&conn, &conn)
	n, err := s.Write(sent)
	require.NoError(t, err)
	assert.Len(t, sent, n)
	whole := bytes.Clone(conn.Bytes())
	require.NoError(t, s.CloseWrite())
	got, err := io.ReadAll(NewPortStream(nil, iotest.OneByteReader(&conn.Buffer)))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(sent, got))

	// A stream that ends without the end of its direction is lost, wherever that is.
	for _, size := range []int{0, 1, pieceHead, pieceHead + 5, pieceHead + maxPiece, len(whole)} {
		_, err := io.ReadAll(NewPortStream(nil, bytes.NewReader(whole[:size])))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d bytes", size)
	}
	_, err = io.ReadAll(NewPortStream(nil, bytes.NewReader([]byte{0, 1, 0, 1})))
	assert.ErrorContains(t, err, "the peer sent a piece of 65537 bytes, and 65536 are the most")
}

// After the end of a direction nothing more is read, whatever the peer sends.
func TestPortStreamAfterItsEnd(t *testing.T) {
	s := NewPortStream(nil, bytes.NewReader([]byte{0, 0, 0, 0, 0, 0, 0, 1, 'x'}))
	for range 2 {
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		assert.Empty(t, got)
	}
}

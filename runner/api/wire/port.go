package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// PortProtocol is the value of Upgrade in POST /v1/sessions/{id}/ports/{port} and in its answer 101. Pieces follow in
// both directions: their length as a big-endian uint32, at most 64 KiB, and so many bytes. A piece without bytes ends
// its direction.
const PortProtocol = "codex-runner-port"

const (
	pieceHead = 4
	maxPiece  = 64 << 10
)

// PortStream is the stream of a connection to a port of a session. It keeps the two ends apart: the one that the peer
// means, after which the other direction may go on, and the loss of the stream. Read and Write may run in different
// goroutines.
type PortStream struct {
	conn io.WriteCloser
	from io.Reader

	left  int // bytes of the piece that is read
	ended bool
	head  [pieceHead]byte
	piece []byte // that is written
}

// NewPortStream returns the stream that is read from a reader and written to conn.
func NewPortStream(conn io.WriteCloser, from io.Reader) *PortStream {
	return &PortStream{conn: conn, from: from, piece: make([]byte, pieceHead+maxPiece)}
}

// Read implements io.Reader. The error is io.EOF only if the peer has ended this direction.
func (s *PortStream) Read(p []byte) (int, error) {
	if err := s.next(); err != nil {
		return 0, err
	}
	n, err := s.from.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, lost(err)
}

// next begins the next piece, unless there are bytes of this one.
func (s *PortStream) next() error {
	if s.ended {
		return io.EOF
	}
	if s.left > 0 {
		return nil
	}
	if _, err := io.ReadFull(s.from, s.head[:]); err != nil {
		return lost(err)
	}
	size := binary.BigEndian.Uint32(s.head[:])
	if size > maxPiece {
		return fmt.Errorf("the peer sent a piece of %d bytes, and %d are the most", size, maxPiece)
	}
	s.left, s.ended = int(size), size == 0
	if s.ended {
		return io.EOF
	}
	return nil
}

// lost is the error of a stream that has ended before its direction did.
func lost(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write implements io.Writer.
func (s *PortStream) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := copy(s.piece[pieceHead:], p[sent:])
		binary.BigEndian.PutUint32(s.piece, uint32(n))
		if _, err := s.conn.Write(s.piece[:pieceHead+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// CloseWrite ends the direction that is written.
func (s *PortStream) CloseWrite() error {
	_, err := s.conn.Write(make([]byte, pieceHead))
	return err
}

// Close closes the connection of the stream. If a direction has not ended, the peer finds the stream lost.
func (s *PortStream) Close() error { return s.conn.Close() }

package api

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
)

// socket serves a log on a WebSocket.
func (l *logOf) socket(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	own := &hijacker{ResponseWriter: w}
	conn, err := websocket.Accept(own, r, nil)
	if err != nil {
		return nil //nolint:nilerr // Accept has answered
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed, or lost
	ctx = conn.CloseRead(ctx)
	if !l.follow {
		if err := l.open(ctx); err != nil {
			return nil //nolint:nilerr // the connection ends without the end of the log
		}
		defer l.close()
	}
	if err := l.copy(ctx, &socket{ctx: ctx, conn: conn, below: own.conn}); err != nil {
		l.Logger.Debug("a log was not read to its end", "session", l.id, "command", l.number, "error", err)
		_ = conn.Close(websocket.StatusTryAgainLater, "connect again and go on")
		return nil
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return nil
}

// socket sends chunks as binary messages.
type socket struct {
	ctx    context.Context //nolint:containedctx // of the request, whose goroutine alone has the socket
	conn   *websocket.Conn
	below  *sharedConn // of conn
	reader *logs.Reader
	head   []byte
}

func (s *socket) open(r *logs.Reader) { s.reader = r }

func (s *socket) next() error {
	span, err := s.reader.NextSpan()
	if err != nil {
		return err
	}
	message := wire.AppendSpan(make([]byte, 0, 32), span)
	s.head = append(appendFrame(s.head[:0], int64(len(message))+span.Size), message...)
	return s.below.send(s.ctx, s.head, s.reader.Output(), span)
}

// appendFrame appends the head of a binary message in one frame, of so many bytes (RFC 6455, 5.2).
func appendFrame(b []byte, size int64) []byte {
	const final, binaryMessage = 1 << 7, 2
	b = append(b, final|binaryMessage)
	switch {
	case size < 126:
		return append(b, byte(size))
	case size < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(size))
}

func (s *socket) flush() error { return nil }

func (s *socket) end(e wire.LogEnd) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, writeBound)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// hijacker gives the WebSocket a connection that it shares with frames of ours.
type hijacker struct {
	http.ResponseWriter

	conn *sharedConn
}

// sendBuffer is the size of the kernel's send buffer, in bytes, if the sysctl net.core.wmem_max permits it: larger
// pieces wake the sender less often. They are pages of the file, not copies.
const sendBuffer = 512 << 10

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, stream, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if to, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = to.SetWriteBuffer(sendBuffer) // a smaller one works too
	}
	h.conn = &sharedConn{Conn: conn}
	stream.Writer.Reset(h.conn)
	return h.conn, stream, nil
}

// sharedConn is the connection of a WebSocket on which frames with the bytes of a file are sent, too: by the kernel, as
// copies of them in this process take more time than all else. The WebSocket writes a control frame with one call, and
// messages only from the goroutine that sends ours.
type sharedConn struct {
	net.Conn

	mu sync.Mutex // held for a frame
}

func (c *sharedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.Write(p)
}

// send sends the head and the bytes of the span. After an error the connection is closed: a part of a frame was sent,
// and nothing else may complete it.
func (c *sharedConn) send(ctx context.Context, head []byte, from *os.File, span logs.Span) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.SetWriteDeadline(time.Now().Add(writeBound))
	stop := context.AfterFunc(ctx, func() { _ = c.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err == nil {
		_, err = c.Conn.Write(head)
	}
	if err == nil {
		err = c.sendFile(from, span)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return c.SetWriteDeadline(time.Time{})
}

// sendFile is sendfile(2).
func (c *sharedConn) sendFile(from *os.File, span logs.Span) error {
	to, ok := c.Conn.(syscall.Conn)
	if !ok {
		return errors.New("the connection is no socket")
	}
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	offset, end := span.Offset, span.Offset+span.Size
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for offset < end {
			n, err := unix.Sendfile(int(fd), int(from.Fd()), &offset, int(end-offset))
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return false
			case err != nil:
				failed = os.NewSyscallError("sendfile", err)
				return true
			case n == 0:
				failed = io.ErrUnexpectedEOF
				return true
			}
		}
		return true
	})
	return errors.Join(err, failed)
}

package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"codex-proxy/runner/api/wire"
)

// Size is the size of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// Shell is a shell in the sandbox of a session. Write and Resize may be called while Run runs. It ends with the
// connection.
type Shell struct {
	conn io.ReadWriteCloser
}

// Shell opens a shell in the sandbox of the command that runs or is held. The caller closes it.
func (c *Client) Shell(ctx context.Context, id, term string, size Size) (*Shell, error) {
	q := size.query()
	if term != "" {
		q.Set("term", term)
	}
	conn, err := c.upgrade(ctx, sessionPath(id)+"/shell?"+q.Encode(), wire.ShellProtocol)
	if err != nil {
		return nil, err
	}
	return &Shell{conn}, nil
}

// Terminal connects to the terminal of a command that was made with TTY, when the command runs. Write and Resize type
// there; the output is in the log. The caller closes it, which leaves the command as it is.
func (c *Client) Terminal(ctx context.Context, id string, n int, size Size) (*Shell, error) {
	conn, err := c.upgrade(ctx, commandPath(id, n)+"/terminal?"+size.query().Encode(), wire.ShellProtocol)
	if err != nil {
		return nil, err
	}
	return &Shell{conn}, nil
}

// query has the size as the API takes it.
func (s Size) query() url.Values {
	q := url.Values{}
	if s.Rows > 0 && s.Columns > 0 {
		q.Set("rows", strconv.Itoa(int(s.Rows)))
		q.Set("columns", strconv.Itoa(int(s.Columns)))
	}
	return q
}

// Wait returns at the end of the connection.
func (s *Shell) Wait() { _, _ = io.Copy(io.Discard, s.conn) }

// Close ends the shell.
func (s *Shell) Close() error { return s.conn.Close() }

// maxFrame is the largest payload of a frame, in bytes.
const maxFrame = 64 << 10

// Write sends input of the terminal.
func (s *Shell) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(maxFrame, len(p)-sent)
		if err := wire.WriteShellFrame(s.conn, wire.ShellData, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// Resize sends the size of the terminal.
func (s *Shell) Resize(size Size) error {
	payload := binary.BigEndian.AppendUint16(nil, size.Rows)
	return wire.WriteShellFrame(s.conn, wire.ShellSize, binary.BigEndian.AppendUint16(payload, size.Columns))
}

// errShellLost reports a shell without an exit status.
var errShellLost = errors.New("the connection to the shell was lost, which ended it: the command that it ran in has " +
	"ended, or codex-runner has")

// Run writes the output of the terminal to w until the shell ends, and returns the exit status of the shell. The end of
// ctx closes the connection.
func (s *Shell) Run(ctx context.Context, w io.Writer) (int, error) {
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	for {
		kind, payload, err := wire.ReadShellFrame(s.conn)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			return 0, fmt.Errorf("%w (%v)", errShellLost, err)
		case kind == wire.ShellExit && len(payload) == 4:
			return int(binary.BigEndian.Uint32(payload)), nil
		case kind != wire.ShellData:
			return 0, fmt.Errorf("codex-runner sent a frame of kind %d and %d bytes, which no shell sends", kind,
				len(payload))
		}
		if _, err := w.Write(payload); err != nil {
			return 0, err
		}
	}
}

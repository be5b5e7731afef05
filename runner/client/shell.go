package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	q := url.Values{}
	if term != "" {
		q.Set("term", term)
	}
	if size.Rows > 0 && size.Columns > 0 {
		q.Set("rows", strconv.Itoa(int(size.Rows)))
		q.Set("columns", strconv.Itoa(int(size.Columns)))
	}
	req, err := c.request(ctx, http.MethodPost, sessionPath(id)+"/shell?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.ShellProtocol)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if conn, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		return &Shell{conn}, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

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

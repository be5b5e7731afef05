package attach

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"

	"github.com/coder/websocket"
)

// messageLimit is the longest message that a remote takes.
const messageLimit = 64 << 20

// bridge speaks JSONL on Stdin and Stdout, as codex app-server does for a program that has started it, and the remote's
// WebSocket on the other side. It returns nil when Stdin has ended.
func (a *Attach) bridge(ctx context.Context, socket string) error {
	if a.New || a.Thread != "" || len(a.Args) > 0 {
		return errors.New("--stdio leaves the choice of a thread to its client: leave out --new, --thread and arguments")
	}
	if _, err := a.await(ctx, socket); err != nil {
		return err
	}
	ws, err := dial(ctx, socket)
	if err != nil {
		return fmt.Errorf("cannot attach to the remote %s: %w", a.Remote, err)
	}
	defer ws.CloseNow() //nolint:errcheck // it may be closed
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool // Stdin has ended
	go func() {          // a read of Stdin that waits ends with the process
		if err := a.send(ctx, ws); err != nil {
			cancel(err)
			return
		}
		over.Store(true)
		_ = ws.Close(websocket.StatusNormalClosure, "")
	}()
	err = a.receive(ctx, ws)
	switch cause := context.Cause(ctx); {
	case over.Load():
		return nil
	case cause != nil:
		err = cause
	}
	var reason websocket.CloseError
	switch {
	case errors.As(err, &reason) && reason.Reason != "":
		err = errors.New(reason.Reason)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = errors.New("the remote has closed it, as for a restart; start this program again")
	}
	return fmt.Errorf("the connection to the remote %s has ended: %w", a.Remote, err)
}

func dial(ctx context.Context, socket string) (*websocket.Conn, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	options := &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, CompressionMode: websocket.CompressionDisabled}
	ws, _, err := websocket.Dial(ctx, "ws://localhost/rpc", options) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(messageLimit)
	return ws, nil
}

// frameSize is the size of the fragments of a message: a remote takes frames of 16 MiB.
const frameSize = 1 << 20

// send returns nil at the end of Stdin.
func (a *Attach) send(ctx context.Context, ws *websocket.Conn) error {
	in := bufio.NewScanner(a.Stdin)
	in.Buffer(make([]byte, 0, 64<<10), messageLimit)
	for in.Scan() {
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := write(ctx, ws, line); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("cannot read a message: %w", err)
	}
	return nil
}

func write(ctx context.Context, ws *websocket.Conn, message []byte) error {
	w, err := ws.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for len(message) > 0 {
		n := min(len(message), frameSize)
		if _, err := w.Write(message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return w.Close()
}

// receive writes each message as a line.
func (a *Attach) receive(ctx context.Context, ws *websocket.Conn) error {
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		// Between the tokens of JSON a line break is a space; a token has no line break.
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" "))
		if _, err := a.Stdout.Write(append(b, '\n')); err != nil {
			return fmt.Errorf("cannot write a message: %w", err)
		}
	}
}

package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"codex-proxy/runner/exec"
)

// ErrNotRunning means that no command of the session runs.
var ErrNotRunning = errors.New("no command of the session runs")

// Refused is the answer of a main process that opens no stream.
type Refused string

func (r Refused) Error() string { return string(r) }

// Terminal is the terminal of a client.
type Terminal struct {
	Rows, Columns uint16
	Type          string // $TERM
}

// Shell opens a shell in the sandbox of the command. Frames of package wire go over the connection in both directions;
// the caller reads from the returned reader, and closes the connection.
func (d Dir) Shell(ctx context.Context, t Terminal) (net.Conn, io.Reader, error) {
	return d.stream(ctx, exec.Request{Do: exec.Shell, Rows: t.Rows, Columns: t.Columns, Term: t.Type})
}

// Attach connects to the terminal of the command, as Shell does, for input alone.
func (d Dir) Attach(ctx context.Context, t Terminal) (net.Conn, io.Reader, error) {
	return d.stream(ctx, exec.Request{Do: exec.Attach, Rows: t.Rows, Columns: t.Columns})
}

// Port connects to a port of the session. A wire.PortStream goes over the connection; the caller reads from the
// returned reader, and closes the connection.
func (d Dir) Port(ctx context.Context, port uint16) (net.Conn, io.Reader, error) {
	return d.stream(ctx, exec.Request{Do: exec.Port, Port: port})
}

// stream makes a request that takes the connection over.
func (d Dir) stream(ctx context.Context, request exec.Request) (net.Conn, io.Reader, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, nil, ErrNotRunning
	}
	from := bufio.NewReader(conn)
	reply, err := begin(conn, from, request)
	if err == nil && reply.Error != "" {
		err = Refused(reply.Error)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, from, nil
}

// begin asks for a stream within beginBound.
func begin(conn net.Conn, from *bufio.Reader, request exec.Request) (reply exec.Reply, err error) {
	if err := conn.SetDeadline(time.Now().Add(beginBound)); err != nil {
		return reply, err
	}
	err = send(conn, request)
	var line []byte
	if err == nil {
		line, err = from.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &reply)
	}
	if err != nil {
		return reply, err
	}
	return reply, conn.SetDeadline(time.Time{})
}

// Package control makes requests to the main process of a session's unit, over its control socket. Package exec serves
// them.
package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/exec"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

const (
	// askBound bounds a request to the main process of a unit.
	askBound = 5 * time.Second
	// beginBound bounds the request for a stream, which a person or a client of a port makes as soon as the session is
	// being started.
	beginBound = 30 * time.Second
	// lookEvery bounds how long a new socket stays unnoticed if the directory cannot be watched.
	lookEvery = 10 * time.Second
)

// Dir is the directory of a session's control socket.
type Dir string

func (d Dir) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(string(d), paths.ControlSocket))
}

// Ask makes a request.
func (d Dir) Ask(ctx context.Context, request exec.Request) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	conn, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	err = conn.SetDeadline(deadline)
	if err == nil {
		err = send(conn, request)
	}
	var reply exec.Reply
	if err == nil {
		err = json.NewDecoder(conn).Decode(&reply)
	}
	return errors.Join(err, fault(reply))
}

func send(conn net.Conn, request exec.Request) error {
	request.Version = session.Version
	return json.NewEncoder(conn).Encode(request)
}

func fault(r exec.Reply) error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}

// Gone reports whether a request was too late: the main process has ended.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, io.EOF) ||
		errors.Is(err, unix.ECONNRESET)
}

// Connect waits for the control socket, and connects to it. Root makes the socket before the main process starts.
func (d Dir) Connect(ctx context.Context, watcher *logs.Watcher) (net.Conn, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	arrived, stop, err := watcher.Arrivals(string(d))
	if err != nil {
		stop = func() {} // the one that waits for the end of the unit has the same error, and reports it
	}
	defer stop()
	poll := time.NewTicker(lookEvery)
	defer poll.Stop()
	for {
		if conn, err := d.dial(ctx); err == nil {
			return conn, nil
		}
		select {
		case <-arrived:
		case <-poll.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Follow calls each with every report of the main process, until that closes the connection or reports an error.
func Follow(conn net.Conn, each func(exec.Reply)) error {
	err := send(conn, exec.Request{Do: exec.Follow})
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, exec.MaxReply)
	for err == nil && lines.Scan() {
		var reply exec.Reply
		if err = json.Unmarshal(lines.Bytes(), &reply); err == nil {
			err = fault(reply)
		}
		if err == nil {
			each(reply)
		}
	}
	return errors.Join(err, lines.Err())
}

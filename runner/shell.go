package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// Terminal is the terminal of a client.
type Terminal struct {
	Rows, Columns uint16
	Type          string // $TERM
}

// Shell opens a shell in the sandbox of the running command of a session. Frames of package wire go over the connection
// in both directions; the caller reads from the returned reader, and closes the connection.
func (r *Runner) Shell(ctx context.Context, v store.Viewer, id string, t Terminal) (net.Conn, io.Reader, error) {
	if _, err := r.Store.Session(ctx, v, id); err != nil {
		return nil, nil, about(id, err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(r.RuntimeDir, paths.ControlDir(id), paths.ControlSocket))
	if err != nil {
		return nil, nil, refuse(wire.Conflict, "a shell runs beside a command of the session",
			"no command of the session %s runs", id)
	}
	from := bufio.NewReader(conn)
	reply, err := shell(conn, from, t)
	if err == nil && reply.Error != "" {
		err = refuse(wire.Conflict, "`codex-runner show "+id+"` says what it does", "the session has no shell: %s",
			reply.Error)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, from, nil
}

// shell asks for a shell within askBound.
func shell(conn net.Conn, from *bufio.Reader, t Terminal) (reply exec.Reply, err error) {
	if err := conn.SetDeadline(time.Now().Add(askBound)); err != nil {
		return reply, err
	}
	err = json.NewEncoder(conn).Encode(exec.Request{
		Version: session.Version, Do: exec.Shell, Rows: t.Rows, Columns: t.Columns, Term: t.Type,
	})
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

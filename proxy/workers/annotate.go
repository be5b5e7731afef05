package workers

import (
	"net"
	"sync"
	"time"
)

const (
	// Annotations is the first line of a connection to a worker's socket that is
	// for the shim before codex (codex-proxy notify-exec), and not for codex. Each
	// further line is a thread and the request that it works at.
	Annotations = "codex-proxy annotations\n"
	// annotateBound is for one of them, which is only a help for people.
	annotateBound = 50 * time.Millisecond
)

// annotator tells the shim which request a thread is at, so that what codex writes
// to the journal can say so. Any goroutine may tell.
type annotator struct {
	socket string

	mu   sync.Mutex
	conn net.Conn
	off  bool // there is no such shim, or it does not take it: not before the next reset
}

// tell never waits long and cannot fail: without it a line lacks a field.
func (a *annotator) tell(thread, request string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.off {
		return
	}
	line := thread + " " + request + "\n"
	if a.conn == nil {
		conn, err := net.DialTimeout("unix", a.socket, annotateBound)
		if err != nil {
			a.off = true
			return
		}
		a.conn, line = conn, Annotations+line
	}
	err := a.conn.SetWriteDeadline(time.Now().Add(annotateBound))
	if err == nil {
		_, err = a.conn.Write([]byte(line))
	}
	if err != nil {
		a.close()
		a.off = true
	}
}

// reset follows the end of the connection to the worker: the next one is another
// process.
func (a *annotator) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.close()
	a.off = false
}

// close is called under the lock.
func (a *annotator) close() {
	if a.conn != nil {
		_ = a.conn.Close() // it was only written to
		a.conn = nil
	}
}

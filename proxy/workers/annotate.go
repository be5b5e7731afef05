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
	// annotatePause follows one that failed: there may be no such shim.
	annotatePause = 10 * time.Second
)

// annotator tells the shim which request a thread is at, so that what codex writes
// to the journal can say so. Any goroutine may tell.
type annotator struct {
	socket string

	mu     sync.Mutex
	conn   net.Conn
	resume time.Time
}

// tell never waits long and cannot fail: without it a line lacks a field.
func (a *annotator) tell(thread, request string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().Before(a.resume) {
		return
	}
	line := thread + " " + request + "\n"
	if a.conn == nil {
		conn, err := net.DialTimeout("unix", a.socket, annotateBound)
		if err != nil {
			a.resume = time.Now().Add(annotatePause)
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
		a.resume = time.Now().Add(annotatePause)
	}
}

// reset follows the end of the connection to the worker: the next one is another
// process.
func (a *annotator) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.close()
	a.resume = time.Time{}
}

// close is called under the lock.
func (a *annotator) close() {
	if a.conn != nil {
		_ = a.conn.Close() // it was only written to
		a.conn = nil
	}
}

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
// to the journal can say so. It is connected once, when the worker has just shaken
// hands: systemd starts a worker that has gone for whoever connects to its socket.
// Any goroutine may tell.
type annotator struct {
	mu   sync.Mutex
	conn net.Conn // nil: there is no such shim, or it does not take it
}

func (a *annotator) connect(socket string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn, err := net.DialTimeout("unix", socket, annotateBound)
	if err == nil {
		a.conn = conn
		a.write(Annotations)
	}
}

// tell never waits long. If nobody takes it, it returns false: then a line lacks a field.
func (a *annotator) tell(thread, request string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		a.write(thread + " " + request + "\n")
	}
	return a.conn != nil
}

// write is called under the lock.
func (a *annotator) write(line string) {
	err := a.conn.SetWriteDeadline(time.Now().Add(annotateBound))
	if err == nil {
		_, err = a.conn.Write([]byte(line))
	}
	if err != nil {
		a.close()
	}
}

// disconnect follows the end of the connection to the worker: the next one is
// another process.
func (a *annotator) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		a.close()
	}
}

// close is called under the lock.
func (a *annotator) close() {
	_ = a.conn.Close() // it was only written to
	a.conn = nil
}

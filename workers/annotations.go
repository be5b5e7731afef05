package workers

import (
	"net"
	"sync"
	"time"
)

const (
	// Annotations is the first line of a connection to a worker's socket that is
	// for the shim in front of codex (codex-proxy notify-exec). Each further line
	// is a thread and the request that it works for.
	Annotations = "codex-proxy annotations\n"
)

// annotateBound bounds one annotation, which only makes log lines easier to
// find. Only a shim that has long ceased to read makes it wait. Tests lengthen it.
var annotateBound = time.Second

// annotator sends the shim the request of each thread, so that codex's lines in the
// journal name it. It is connected once, right after the handshake: systemd starts
// a worker that has ended for every connection to its socket. Any goroutine may
// send.
type annotator struct {
	mu   sync.Mutex
	conn net.Conn // nil: there is no such shim, or it does not read
}

func (a *annotator) connect(socket string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		return
	}
	conn, err := net.DialTimeout("unix", socket, annotateBound)
	if err == nil {
		a.conn = conn
		a.write(Annotations)
	}
}

// send never waits long. It returns false if there is no shim that reads; then a
// journal line lacks a field.
func (a *annotator) send(thread, request string) bool {
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

// disconnect follows the end of the connection to the worker: the next one is to
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

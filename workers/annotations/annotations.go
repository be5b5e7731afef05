// Package annotations has the lines that the proxy sends to the shim in front of codex (codex-proxy notify-exec), on a
// connection of its own to the worker's socket.
package annotations

import (
	"net"
	"sync"
	"time"
)

const (
	// Greeting is the first line of such a connection. Each further line is a thread and the
	// request that it works for, unless it begins with one of the words below.
	Greeting = "codex-proxy annotations\n"
	// Wedged is the first word of a line which reports that codex does not answer on the
	// proxy's connection; its rest is the reason in words. The shim then withholds its
	// watchdog's pings.
	Wedged = "wedged"
	// Rest is the first word of a line which ends a worker that has no turns; its rest is the
	// reason in words.
	Rest = "rest"
	// Renew is the first word of a line which ends a worker that has no turns and is to start
	// again; its rest is the reason in words.
	Renew = "renew"
)

// Writer sends the shim the request of each thread, so that codex's lines in the
// journal name it. It is connected once, right after the handshake: systemd starts
// a worker that has ended for every connection to its socket. Any goroutine may
// send.
type Writer struct {
	// Bound bounds one annotation, which only makes log lines easier to find. Only a shim that
	// has long ceased to read makes it wait.
	Bound time.Duration

	mu   sync.Mutex
	conn net.Conn // nil: there is no such shim, or it does not read
}

// Connect connects to the shim behind the worker's socket, unless the writer is connected.
func (w *Writer) Connect(socket string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		return
	}
	conn, err := net.DialTimeout("unix", socket, w.Bound)
	if err == nil {
		w.conn = conn
		w.write(Greeting)
	}
}

// Send never waits long. It returns false if there is no shim that reads; then a
// journal line lacks a field.
func (w *Writer) Send(thread, request string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.write(thread + " " + request + "\n")
	}
	return w.conn != nil
}

// write is called under the lock.
func (w *Writer) write(line string) {
	err := w.conn.SetWriteDeadline(time.Now().Add(w.Bound))
	if err == nil {
		_, err = w.conn.Write([]byte(line))
	}
	if err != nil {
		w.close()
	}
}

// Disconnect follows the end of the connection to the worker: the next one is to
// another process.
func (w *Writer) Disconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.close()
	}
}

// close is called under the lock.
func (w *Writer) close() {
	_ = w.conn.Close() // it was only written to
	w.conn = nil
}

// Knock makes systemd start a worker that has ended: it connects to its socket, and sends no annotations.
func Knock(socket string, bound time.Duration) error {
	conn, err := net.DialTimeout("unix", socket, bound)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(Greeting))
	return err
}

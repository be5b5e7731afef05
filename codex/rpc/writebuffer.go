package rpc

import (
	"bufio"
	"net"
	"sync"
)

const (
	// maxBuffered is how many bytes a writeBuffer holds at most. The websocket library writes 4 KiB at a time.
	maxBuffered = 64 << 10
	// keptWriteBuffer is the largest buffer that is kept for the next batch.
	keptWriteBuffer = 8 << 10
	// readSize is how much one system call reads: everything that codex sends of a short turn. The websocket library
	// reads 4 KiB at a time.
	readSize = 32 << 10
)

// writeBuffer is a connection that collects writes between start and flushAndStop, so that successive messages leave
// in one system call. It reads through a buffer, too.
type writeBuffer struct {
	net.Conn
	in *bufio.Reader

	mu        sync.Mutex // the library answers pings on the reading goroutine
	buffering bool
	buf       []byte
}

// Write implements net.Conn.
func (w *writeBuffer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.buffering {
		return w.Conn.Write(b)
	}
	if len(w.buf)+len(b) > maxBuffered {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	if n := len(w.buf) + len(b); n > cap(w.buf) && n > keptWriteBuffer { // a long message: grow in one step
		w.buf = append(make([]byte, 0, maxBuffered), w.buf...)
	}
	w.buf = append(w.buf, b...)
	return len(b), nil
}

// Read implements net.Conn.
func (w *writeBuffer) Read(b []byte) (int, error) { return w.in.Read(b) }

// start begins to buffer.
func (w *writeBuffer) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffering = true
}

// flushAndStop sends the buffer; later writes are sent at once.
func (w *writeBuffer) flushAndStop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffering = false
	err := w.flush()
	if cap(w.buf) > keptWriteBuffer {
		w.buf = nil
	}
	return err
}

// flush is called with the lock held.
func (w *writeBuffer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

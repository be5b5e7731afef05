//go:build !race

package direct

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Conn returns c with such a Read and Write, or c itself if it is not a connection of
// package net. Deadlines and Close work as they do there.
func Conn(c net.Conn) net.Conn {
	from, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := from.SyscallConn()
	if err != nil {
		return c
	}
	d := &conn{Conn: c}
	d.reading = transfer{wait: raw.Read, call: syscall.SYS_READ}
	d.writing = transfer{wait: raw.Write, call: syscall.SYS_WRITE}
	d.reading.step, d.writing.step = d.reading.once, d.writing.once
	return d
}

// Under returns the connection that Conn was given for c, or c itself.
func Under(c net.Conn) net.Conn {
	if d, ok := c.(*conn); ok {
		return d.Conn
	}
	return c
}

type conn struct {
	net.Conn
	reading, writing transfer
}

// Read implements net.Conn.
func (d *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := d.reading.run(b)
	switch {
	case err != nil:
		return 0, d.named("read", err)
	case n == 0:
		return 0, io.EOF
	default:
		return n, nil
	}
}

// Write implements net.Conn.
func (d *conn) Write(b []byte) (written int, _ error) {
	for written < len(b) {
		n, err := d.writing.run(b[written:])
		if err != nil {
			return written, d.named("write", err)
		}
		written += n
	}
	return written, nil
}

// named is err in the form of package net.
func (d *conn) named(call string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		local := d.LocalAddr()
		return &net.OpError{
			Op: call, Net: local.Network(), Source: local, Addr: d.RemoteAddr(), Err: os.NewSyscallError(call, errno),
		}
	}
	return err
}

// transfer is one direction of a connection, with one caller at a time.
type transfer struct {
	wait func(func(fd uintptr) bool) error // calls step until it returns true, and waits for the socket in between
	step func(fd uintptr) bool             // once, as a function value made only once
	call uintptr

	mu    sync.Mutex
	b     []byte
	n     int
	errno syscall.Errno
}

// run reads or writes some of b.
func (t *transfer) run(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.errno = b, 0, 0
	defer func() { t.b = nil }()
	if err := t.wait(t.step); err != nil {
		return 0, err
	}
	if t.errno != 0 {
		return 0, t.errno
	}
	return t.n, nil
}

// once makes the system call; false: the socket is not ready.
func (t *transfer) once(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(t.call, fd, uintptr(unsafe.Pointer(&t.b[0])), uintptr(len(t.b)))
		switch errno {
		case 0:
			t.n = int(n)
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		t.errno = errno
		return true
	}
}

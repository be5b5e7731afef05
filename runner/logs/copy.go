package logs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	pipeSize   = 1 << 20   // fewer, larger chunks; the most that pipe(7) lets everybody have (fs.pipe-max-size)
	bufferSize = 128 << 10 // of a copy that has to look at the bytes
)

// Copy adds the bytes of the pipe to the log, as the given stream, until the pipe's end. It returns ErrLimit if the log
// is full, and nil at the end. The pipe must be non-blocking, as pipes of os.Pipe are, and stays open. It may be the
// master of a pseudoterminal.
//
// A read deadline of the pipe ends the copy although others hold the pipe's other end: Copy then adds the bytes that
// the pipe has at that moment, which its capacity bounds, and returns nil.
func (w *Writer) Copy(stream Stream, pipe *os.File) error {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot read the command's %v: %w", stream, err)
	}
	isPipe := false
	_ = conn.Control(func(fd uintptr) { // a smaller pipe works too
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize)
		_, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		isPipe = err == nil
	})
	c := w.source(stream, isPipe)
	err = conn.Read(func(fd uintptr) bool { return c.drain(int(fd)) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.rest = pipeSize
		err = conn.Control(func(fd uintptr) { c.drain(int(fd)) })
	}
	if err = errors.Join(err, c.err); err == nil {
		err = c.finish()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLimit):
		return ErrLimit
	default:
		return fmt.Errorf("cannot copy the command's %v: %w", stream, err)
	}
}

// A source is one stream on its way into the log.
type source struct {
	w      *Writer
	stream Stream
	move   func(fd int) (int64, error) // moves a chunk; 0 without an error at the pipe's end
	finish func() error                // adds the bytes that move holds back
	rest   int64                       // if positive, drain ends after so many bytes
	err    error
}

func (w *Writer) source(stream Stream, isPipe bool) *source {
	c := &source{w: w, stream: stream, finish: func() error { return nil }}
	c.move = c.splice
	add := func(p []byte) error { return w.write(stream, p) }
	switch {
	case w.secrets != nil:
		s := w.secrets.scrubber(add)
		c.look(s.write)
		c.finish = s.close
	case w.also != nil, !isPipe:
		c.look(add)
	}
	return c
}

// look has the source read the bytes and write them.
func (c *source) look(write func([]byte) error) {
	buffer := make([]byte, bufferSize)
	c.move = func(fd int) (int64, error) {
		n, err := unix.Read(fd, buffer)
		if n <= 0 || err != nil {
			return 0, err
		}
		return int64(n), write(buffer[:n])
	}
}

// drain moves the bytes of the pipe. It reports whether the copy is over; if not, the pipe is empty.
func (c *source) drain(fd int) bool {
	for bounded := c.rest > 0; ; {
		n, err := c.move(fd)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil || n == 0:
			c.err = err
			return true
		}
		if c.rest -= n; bounded && c.rest <= 0 {
			return true
		}
	}
}

// splice moves a chunk from the pipe to the output without a copy of it in this process.
func (c *source) splice(fd int) (int64, error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	room, err := w.room()
	if err != nil {
		return overflow(fd, err)
	}
	at := w.last.end
	n, err := unix.Splice(fd, nil, int(w.output.Fd()), &at, int(min(room, pipeSize)), unix.SPLICE_F_NONBLOCK)
	if err != nil {
		return 0, err
	}
	return n, w.record(c.stream, n)
}

// overflow returns the error of a full log if the pipe has more bytes, and loses the first of them.
func overflow(fd int, full error) (int64, error) {
	n, err := unix.Read(fd, make([]byte, 1))
	if n <= 0 || err != nil {
		return 0, err
	}
	return 0, full
}

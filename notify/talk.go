package notify

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// talk reads the standard error of a command. A nil talk leaves it to the command.
type talk struct {
	r, w   *os.File // w is the command's
	lines  lineWriter
	copied chan struct{}
}

// newTalk is nil if each is.
func newTalk(each func(piece string)) (*talk, error) {
	if each == nil {
		return nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &talk{r: r, w: w, lines: lineWriter{each: each}, copied: make(chan struct{})}, nil
}

// file is what the command gets as its standard error.
func (t *talk) file() *os.File {
	if t == nil {
		return os.Stderr
	}
	return t.w
}

// run passes on what the command writes, from its start until end is called or every
// process that has the pipe has closed it.
func (t *talk) run() {
	if t == nil {
		return
	}
	defer close(t.copied)
	_ = t.w.Close()
	_, _ = io.Copy(&t.lines, t.r)
}

// end passes on what is in the pipe, and waits for no more: all that a command has
// written is there when it has exited, and what it has started may hold the pipe
// for ever.
func (t *talk) end() {
	if t == nil {
		return
	}
	_ = t.r.SetReadDeadline(time.Unix(1, 0)) // long ago
	<-t.copied
	_ = t.r.SetReadDeadline(time.Time{})
	_, _ = io.CopyN(&t.lines, t.r, t.waiting())
	t.lines.flush()
	t.close()
}

// waiting is the number of bytes in the pipe.
func (t *talk) waiting() int64 {
	n := 0
	if raw, err := t.r.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return int64(n)
}

// close is enough for a command that has not been started.
func (t *talk) close() {
	if t != nil {
		_, _ = t.w.Close(), t.r.Close()
	}
}

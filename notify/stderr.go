package notify

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stderrPipe reads the standard error of a command, or all of its output. With a nil
// stderrPipe the command shares ours.
type stderrPipe struct {
	r, w   *os.File // w is the command's
	lines  lineWriter
	copied chan struct{}
}

// newStderrPipe is nil if each is.
func newStderrPipe(each func(piece string)) (*stderrPipe, error) {
	if each == nil {
		return nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &stderrPipe{r: r, w: w, lines: lineWriter{each: each}, copied: make(chan struct{})}, nil
}

// file is the standard error of the command.
func (p *stderrPipe) file() *os.File {
	if p == nil {
		return os.Stderr
	}
	return p.w
}

// run passes on the command's output, from its start until a call of end or until
// every process that has the pipe has closed it.
func (p *stderrPipe) run() {
	if p == nil {
		return
	}
	defer close(p.copied)
	_ = p.w.Close()
	_, _ = io.Copy(&p.lines, p.r)
}

// end passes on the rest of the pipe without waiting for more: the pipe holds all
// output of an exited command, and its child processes may keep the pipe open for
// ever.
func (p *stderrPipe) end() {
	if p == nil {
		return
	}
	_ = p.r.SetReadDeadline(time.Unix(1, 0)) // in the past
	<-p.copied
	_ = p.r.SetReadDeadline(time.Time{})
	_, _ = io.CopyN(&p.lines, p.r, p.buffered())
	p.lines.flush()
	p.close()
}

// buffered is the number of bytes in the pipe.
func (p *stderrPipe) buffered() int64 {
	n := 0
	if raw, err := p.r.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return int64(n)
}

// close suffices for a command that has not been started.
func (p *stderrPipe) close() {
	if p != nil {
		_, _ = p.w.Close(), p.r.Close()
	}
}

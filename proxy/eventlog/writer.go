package eventlog

import (
	"errors"
	"fmt"
	"os"
)

const (
	// longestWait is how many bytes of events wait for Flush.
	longestWait = 64 << 10
	// keptBuffer is how large a buffer may be that is kept for the next events.
	keptBuffer = 8 << 10
)

// ErrFull means that the logs that this process writes have as many bytes as they may.
var ErrFull = errors.New("the events of all responses in flight have as many bytes as they may (response_storage)")

// Writer appends events to the log of a response. It belongs to one goroutine.
type Writer struct {
	logs    *Logs
	path    string
	file    *os.File // nil: it is not open
	size    int64
	pending []byte
	err     error // of the first failure, after which nothing is written
}

// Create makes the log of a response, which must not exist.
func (l *Logs) Create(id string) (*Writer, error) {
	w := &Writer{logs: l, path: l.path(id)}
	if err := w.open(os.O_CREATE | os.O_EXCL); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Writer) open(flags int) (err error) {
	if w.file, err = os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND|flags, 0o600); err != nil {
		return fmt.Errorf("cannot write the events of a response: %w", err)
	}
	w.logs.files.Add(1)
	return nil
}

// Write implements io.Writer with whole events. Followers get them after Flush.
func (w *Writer) Write(events []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.pending = append(w.pending, events...)
	if len(w.pending) >= longestWait {
		if err := w.Flush(); err != nil {
			return 0, err
		}
	}
	return len(events), nil
}

// Flush writes the pending events, in one call of the system.
func (w *Writer) Flush() error {
	if w.err != nil || len(w.pending) == 0 {
		return w.err
	}
	w.err = w.write()
	if w.pending = w.pending[:0]; cap(w.pending) > keptBuffer {
		w.pending = nil
	}
	return w.err
}

func (w *Writer) write() error {
	if w.logs.bytes.Add(int64(len(w.pending))) > w.logs.limit {
		w.logs.bytes.Add(-int64(len(w.pending)))
		return ErrFull
	}
	w.size += int64(len(w.pending))
	if w.file == nil {
		if err := w.open(0); err != nil {
			return err
		}
	}
	if _, err := w.file.Write(w.pending); err != nil {
		return fmt.Errorf("cannot write the events of a response: %w", err)
	}
	if w.logs.files.Load() > keptOpen {
		w.Rest()
	}
	return nil
}

// Size is the number of bytes that were written.
func (w *Writer) Size() int64 { return w.size }

// Rest closes the file until the next event.
func (w *Writer) Rest() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
		w.logs.files.Add(-1)
	}
}

// Close ends the writing, and wakes followers: the response has ended.
func (w *Writer) Close() {
	w.logs.bytes.Add(-w.size)
	if w.file == nil {
		_ = w.open(0) // its close wakes followers
	}
	w.Rest()
	w.err = os.ErrClosed
}

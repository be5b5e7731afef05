package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"codex-proxy/internal/filewatch"
)

// ErrCut means that a log ends before the last event of its response, as after a power cut.
var ErrCut = errors.New("the end of the events of the response is lost")

// ErrNone means that there is no log of a response.
var ErrNone = errors.New("there are no events of the response")

// scanned is how much of a log is read at a time.
const scanned = 16 << 10

// buffers have the memory of readers while they read.
var buffers = sync.Pool{New: func() any { return new([scanned]byte) }}

// Reader reads a log, event by event, while it is written. A writer may die at any time: so a Reader returns whole
// events only, and the last event of a response after Ended alone. It belongs to one goroutine.
type Reader struct {
	path  string
	file  *os.File // nil: it is not open
	at    int64    // of the next byte to return
	after int      // the events to this number are left out

	looked int64 // bytes that scan has seen
	whole  int64 // of whole events before the last one
	count  int   // of them
	last   int64 // the end of the last event; 0: it was not seen
	size   int64 // of the whole log; -1: the response has not ended

	head    []byte // the beginning of the event at whole
	newline bool   // the byte before looked is a newline

	logs  *Logs
	watch *filewatch.Watch
	stop  func() // of the watch; nil: none was asked for
}

// Read returns a reader of the events after the number after; -1 are all of them.
func (l *Logs) Read(id string, after int) (*Reader, error) {
	r := newReader(nil)
	r.logs, r.path, r.after = l, l.path(id), after
	return r, r.open()
}

// Copy returns a reader of a whole log of another host, from the event with the number first on. after is as in Read.
func (l *Logs) Copy(events []byte, first, after int) (*Reader, error) {
	file, err := os.CreateTemp(l.dir, "copy-")
	if err == nil {
		err = os.Remove(file.Name()) // it goes with its reader
	}
	if err == nil {
		_, err = file.Write(events)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot keep the events of another host: %w", errors.Join(err, file.Close()))
	}
	r := newReader(file)
	r.logs, r.path, r.after, r.count = l, file.Name(), after, first
	l.files.Add(1)
	return r, nil
}

func newReader(file *os.File) *Reader { return &Reader{file: file, after: -1, size: -1} }

// open opens the file if it is not open.
func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	file, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNone
	}
	if err != nil {
		return fmt.Errorf("cannot read the events of a response: %w", err)
	}
	r.file = file
	r.logs.files.Add(1)
	return nil
}

// Rest is called before a wait: it closes the file until the next read, if many are open.
func (r *Reader) Rest() {
	if r.logs.files.Load() > keptOpen {
		r.close()
	}
}

func (r *Reader) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
		r.logs.files.Add(-1)
	}
}

// Close ends the reading.
func (r *Reader) Close() {
	if r.stop != nil {
		r.stop()
	}
	r.close()
}

// Changed returns a channel that holds an element at first and after each change of the log; nil if the kernel reports
// no changes.
func (r *Reader) Changed() <-chan struct{} {
	if r.stop == nil {
		r.watch, r.stop = r.logs.watch(r.path, written)
	}
	if r.watch == nil {
		return nil
	}
	return r.watch.Changed()
}

// Ended reports that the response has ended, and its log has so many bytes.
func (r *Reader) Ended(size int64) { r.size = size }

// Next looks for events and reports whether WriteTo has bytes to write. The error is ErrNone if the log was removed.
func (r *Reader) Next() (bool, error) {
	err := r.open()
	if err == nil {
		err = r.scan()
	}
	return r.at < r.ready(), err
}

// ready is the end of the bytes that may be returned.
func (r *Reader) ready() int64 {
	if r.size >= 0 && r.last > 0 && r.last <= r.size && r.count > r.after {
		return r.last
	}
	return r.whole
}

// Ending reports whether the last event is in the log, and waits for Ended.
func (r *Reader) Ending() bool { return r.size < 0 && r.last > 0 }

// Count returns the number of events before the last one that the reader has seen.
func (r *Reader) Count() int { return r.count }

// Done reports whether everything was returned. The error is ErrCut if the log lacks the end.
func (r *Reader) Done() (bool, error) {
	switch {
	case r.size < 0 || r.at < r.ready():
		return false, nil
	case r.last == 0 || r.last > r.size:
		return true, ErrCut
	default:
		return true, nil
	}
}

// WriteTo writes up to most bytes of the events that Next has found.
func (r *Reader) WriteTo(w io.Writer, most int64) error {
	buffer := buffers.Get().(*[scanned]byte)
	defer buffers.Put(buffer)
	for end := min(r.ready(), r.at+most); r.at < end; {
		n, err := r.file.ReadAt(buffer[:min(scanned, end-r.at)], r.at)
		if n == 0 {
			return fmt.Errorf("cannot read the events of a response: %w", err)
		}
		r.at += int64(n)
		if _, err := w.Write(buffer[:n]); err != nil {
			return err
		}
	}
	return nil
}

// scan looks at everything behind the last whole event: an event that was incomplete or not confirmed may have been
// replaced since.
func (r *Reader) scan() error {
	if r.last > 0 && r.last == r.size {
		return nil
	}
	r.looked, r.last, r.head, r.newline = r.whole, 0, r.head[:0], false
	buffer := buffers.Get().(*[scanned]byte)
	defer buffers.Put(buffer)
	for r.last == 0 {
		n, err := r.file.ReadAt(buffer[:], r.looked)
		r.look(buffer[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("cannot read the events of a response: %w", err)
		}
	}
	return nil
}

// look finds the ends of events in the bytes at r.looked.
func (r *Reader) look(data []byte) {
	for len(data) > 0 && r.last == 0 {
		n, ended := r.boundary(data)
		if missing := longestHead - len(r.head); missing > 0 {
			r.head = append(r.head, data[:min(n, missing)]...)
		}
		r.looked, data = r.looked+int64(n), data[n:]
		if ended {
			r.event()
		}
	}
}

// event records the event that ends at r.looked.
func (r *Reader) event() {
	if isTerminal(r.head) {
		r.last = r.looked
		return
	}
	r.whole = r.looked
	if r.count <= r.after {
		r.at = r.whole
	}
	r.count++
	r.head, r.newline = r.head[:0], false
}

// boundary returns the bytes to the end of an event, or all of them if it does not end in them.
func (r *Reader) boundary(data []byte) (n int, ended bool) {
	if r.newline && data[0] == '\n' {
		return 1, true
	}
	if i := bytes.Index(data, []byte("\n\n")); i >= 0 {
		return i + 2, true
	}
	r.newline = data[len(data)-1] == '\n'
	return len(data), false
}

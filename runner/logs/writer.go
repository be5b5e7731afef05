package logs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLimit is the error of a write beyond the limit of the log. The log has everything up to the limit.
var ErrLimit = errors.New("the output limit is reached")

// A Writer writes one log. Its methods are safe for concurrent use, so that the streams of a command are copied at the
// same time.
type Writer struct {
	output, index *os.File
	limit         int64
	secrets       *Secrets
	also          func(Stream, []byte)

	mu      sync.Mutex
	last    record // the end of the output
	indexed int64  // the size of the index
}

// NewWriter returns a Writer to the empty files output and index, neither of which may be open for append (splice(2)
// refuses such files), and which remain the caller's to close. A write that makes the output longer than limit bytes
// fails with ErrLimit; so does one that makes the index longer than MaxBytes allows. Occurrences of secrets are
// replaced, see NewSecrets; nil stands for no secrets.
func NewWriter(output, index *os.File, limit int64, secrets *Secrets) (*Writer, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("an output limit of %d bytes is out of range: use at least 1", limit)
	}
	for _, file := range []*os.File{output, index} {
		if err := writable(file); err != nil {
			return nil, fmt.Errorf("cannot write the log to %s: %w", file.Name(), err)
		}
	}
	return &Writer{output: output, index: index, limit: limit, secrets: secrets}, nil
}

func writable(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		return fmt.Errorf("it has %d bytes already: a log is written once", info.Size())
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_APPEND != 0 {
		err = errors.New("it is open for append: open it without O_APPEND")
	}
	return err
}

// Also has the Writer pass on the bytes that it adds to the log, one call at a time. It must be called before Copy.
func (w *Writer) Also(pass func(stream Stream, added []byte)) { w.also = pass }

// Bytes is the number of bytes in the output.
func (w *Writer) Bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.end
}

// write adds p to the log. If it does not fit, write adds the part that fits.
func (w *Writer) write(stream Stream, p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(p) > 0 {
		room, err := w.room()
		if err != nil {
			return err
		}
		// Not WriteAt, which does not return how much it wrote before an error.
		n, err := unix.Pwrite(int(w.output.Fd()), p[:min(int64(len(p)), room)], w.last.end)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if err := w.record(stream, int64(n)); err != nil {
			return err
		}
		if w.also != nil {
			w.also(stream, p[:n])
		}
		p = p[n:]
	}
	return nil
}

// room is the number of bytes that the output may grow by.
func (w *Writer) room() (int64, error) {
	if w.last.end >= w.limit || w.indexed >= maxIndex(w.limit) {
		return 0, ErrLimit
	}
	return w.limit - w.last.end, nil
}

// record adds the record of a chunk of n bytes, which the output has. The times of records never decrease, even if
// the clock does. A record that was written in part is overwritten by the next.
func (w *Writer) record(stream Stream, n int64) error {
	if n == 0 {
		return nil
	}
	w.last = record{end: w.last.end + n, time: max(time.Now().UnixNano(), w.last.time), stream: stream}
	var b [recordSize]byte
	if _, err := w.index.WriteAt(w.last.append(b[:0]), w.indexed); err != nil {
		return err
	}
	w.indexed += recordSize
	return nil
}

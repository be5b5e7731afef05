// Package eventlog keeps the events of streamed responses in files, one a response, while they are made and as long as
// the response is stored. A file has the bytes that a client receives.
//
// One process writes a file; it may be another one than the process that a client follows it in, as after a reload.
// Each process holds a lock (flock(2)) as long as it lives, by which others see that it has ended. The last event of a
// response is in its file before the response is stored, and followers get it after that: see Reader.
package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/filewatch"
)

// keptOpen is how many files stay open while nothing is written or read; others are opened each time. Connections leave
// few file descriptors if LimitNOFILE= is small.
const keptOpen = 32

// Logs is the directory of the files. Its methods are safe for concurrent use.
type Logs struct {
	dir   string
	limit int64
	bytes atomic.Int64 // of the logs that this process writes
	files atomic.Int64 // that its writers and readers have open

	opened chan struct{} // closed by Open

	mu      sync.Mutex
	process *Process
	watcher *filewatch.Watcher // nil: readers notice changes when they look
}

// New returns the logs of a directory, which Open creates. The logs that one process writes at the same time may have
// limit bytes.
func New(dir string, limit int64) *Logs {
	return &Logs{dir: dir, limit: limit, opened: make(chan struct{})}
}

// Open makes the directory if need be, and the lock of this process. It may be called again.
func (l *Logs) Open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process != nil {
		return nil
	}
	if err := os.Mkdir(l.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make the directory of events: %w", err)
	}
	process, err := claim(l.dir)
	if err != nil {
		return err
	}
	l.process = process
	l.watcher, _ = filewatch.New() // without one, all look for themselves
	close(l.opened)
	return nil
}

// Close releases the lock of this process: to others it has ended.
func (l *Logs) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		return
	}
	l.process.release()
	if l.watcher != nil {
		_ = l.watcher.Close()
	}
}

// Opened returns a channel that is closed after Open.
func (l *Logs) Opened() <-chan struct{} { return l.opened }

// Run notices changes until ctx ends. Without it followers look for changes by themselves.
func (l *Logs) Run(ctx context.Context) error {
	select {
	case <-l.opened:
	case <-ctx.Done():
		return nil
	}
	if watcher := l.watching(); watcher != nil {
		return watcher.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

func (l *Logs) watching() *filewatch.Watcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watcher
}

// watch returns a watch of a file, and nil if the kernel gives none.
func (l *Logs) watch(path string, mask uint32) (watch *filewatch.Watch, stop func()) {
	watcher := l.watching()
	if watcher == nil {
		return nil, func() {}
	}
	watch, err := watcher.Add(path, mask)
	if err != nil {
		return nil, func() {}
	}
	return watch, func() { watcher.Remove(watch) }
}

// Own is the name of this process; empty before Open.
func (l *Logs) Own() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		return ""
	}
	return l.process.name
}

func (l *Logs) path(id string) string { return filepath.Join(l.dir, filepath.Base(id)) }

// Remove removes the log of a response, if there is one.
func (l *Logs) Remove(id string) error {
	if err := os.Remove(l.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the events of a response: %w", err)
	}
	return nil
}

// Whole is the first bytes of a log.
func (l *Logs) Whole(id string, size int64) ([]byte, error) {
	file, err := os.Open(l.path(id))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	events := make([]byte, size)
	_, err = io.ReadFull(file, events)
	return events, err
}

// End ends a log after the death of its writer: it removes an incomplete event, and a last event that was not
// confirmed, and appends the result of events for the number of events that are left. It returns the size of the log.
// It may be called again for the same log, by one caller at a time.
func (l *Logs) End(id string, events func(sequence int) ([]byte, error)) (size int64, err error) {
	file, err := os.OpenFile(l.path(id), os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("cannot end the events of a response: %w", err)
	}
	defer file.Close() // which wakes followers
	r := newReader(file)
	if err := r.scan(); err != nil {
		return 0, err
	}
	last, err := events(r.count)
	if err == nil {
		err = file.Truncate(r.whole)
	}
	if err == nil {
		_, err = file.WriteAt(last, r.whole)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot end the events of a response: %w", err)
	}
	return r.whole + int64(len(last)), nil
}

// terminal are the beginnings of the last events of a response.
var terminal = [][]byte{
	[]byte("event: response.completed\n"), []byte("event: response.failed\n"), []byte("event: response.incomplete\n"),
}

// longestHead is the length of the longest of them.
var longestHead = len(terminal[2])

func isTerminal(head []byte) bool {
	for _, beginning := range terminal {
		if bytes.HasPrefix(head, beginning) {
			return true
		}
	}
	return false
}

// written are the events of inotify(7) after which a follower looks at a log: its writer closes it after its end.
const written = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_DELETE_SELF | unix.IN_ATTRIB

// Package filewatch notices changes of files and directories, by inotify(7).
package filewatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Watcher wakes those that wait for changes. All of a process share one, because the kernel gives a user few
// instances (fs.inotify.max_user_instances). Its methods are safe for concurrent use.
type Watcher struct {
	file *os.File

	mu      sync.Mutex
	watches map[int32]map[*Watch]struct{} // by their descriptors; those of one file have one descriptor
}

// A Watch is of one file or directory, for one that waits.
type Watch struct {
	descriptor int32
	changed    chan struct{}
}

// Changed returns a channel that holds an element at first, and after each change since the last receive.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// New returns a Watcher, which notices nothing until Run runs.
func New() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		err = fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_instances", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot watch files: %w", err)
	}
	return &Watcher{file: os.NewFile(uintptr(fd), "inotify"), watches: map[int32]map[*Watch]struct{}{}}, nil
}

// Run wakes those that wait until ctx is done, and then closes the Watcher and returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.file.Close()
	stop := context.AfterFunc(ctx, func() { _ = w.file.Close() })
	defer stop()
	for buffer := make([]byte, 16<<10); ; {
		n, err := w.file.Read(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot watch files: %w", err)
		}
		w.dispatch(buffer[:n])
	}
}

// Close closes a Watcher that never ran.
func (w *Watcher) Close() error { return w.file.Close() }

// Len returns the number of watches.
func (w *Watcher) Len() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watches := range w.watches {
		n += len(watches)
	}
	return n
}

// dispatch wakes those that the events concern: of each, struct inotify_event.
func (w *Watcher) dispatch(events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		descriptor := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		name := binary.NativeEndian.Uint32(events[12:])
		events = events[unix.SizeofInotifyEvent+int(name):]
		if mask&unix.IN_Q_OVERFLOW == 0 {
			wake(w.watches[descriptor])
			continue
		}
		for _, watches := range w.watches { // events were lost
			wake(watches)
		}
	}
}

func wake(watches map[*Watch]struct{}) {
	for watch := range watches {
		select {
		case watch.changed <- struct{}{}:
		default:
		}
	}
}

// Add watches the path for the events of mask.
func (w *Watcher) Add(path string, mask uint32) (*Watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := &Watch{changed: make(chan struct{}, 1)}
	added.changed <- struct{}{} // what happened before raises no event
	err := w.control(func(fd int) (err error) {
		descriptor, err := unix.InotifyAddWatch(fd, path, mask)
		added.descriptor = int32(descriptor)
		return err
	})
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_watches", err)
	}
	if err != nil {
		return nil, err
	}
	if w.watches[added.descriptor] == nil {
		w.watches[added.descriptor] = map[*Watch]struct{}{}
	}
	w.watches[added.descriptor][added] = struct{}{}
	return added, nil
}

// Remove undoes Add.
func (w *Watcher) Remove(old *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watches := w.watches[old.descriptor]
	delete(watches, old)
	if len(watches) > 0 {
		return
	}
	delete(w.watches, old.descriptor)
	_ = w.control(func(fd int) error { // fails if the file is gone, or the Watcher closed
		_, err := unix.InotifyRmWatch(fd, uint32(old.descriptor))
		return err
	})
}

func (w *Watcher) control(f func(fd int) error) error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

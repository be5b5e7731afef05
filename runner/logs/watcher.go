package logs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Watcher notices that files are written or arrive, by inotify(7). All followers of a process share one, because the kernel
// gives a user few instances (fs.inotify.max_user_instances). Its methods are safe for concurrent use.
type Watcher struct {
	file *os.File

	mu      sync.Mutex
	watches map[int32]map[*watch]struct{} // by their descriptors; those of one file have one descriptor
}

// A watch is one follower's.
type watch struct {
	descriptor int32
	written    chan struct{} // holds one element if there was an event since the last receive
}

// NewWatcher returns a Watcher, which notices nothing until Run runs.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if errors.Is(err, unix.EMFILE) {
		err = fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_instances", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot watch logs: %w", err)
	}
	return &Watcher{file: os.NewFile(uintptr(fd), "inotify"), watches: map[int32]map[*watch]struct{}{}}, nil
}

// Run wakes followers until ctx is done, and then closes the Watcher and returns nil.
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
			return fmt.Errorf("cannot watch logs: %w", err)
		}
		w.dispatch(buffer[:n])
	}
}

// dispatch wakes the followers that the events concern: of each, struct inotify_event.
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

func wake(watches map[*watch]struct{}) {
	for watch := range watches {
		select {
		case watch.written <- struct{}{}:
		default:
		}
	}
}

// Arrivals returns a channel that has an element after a file was made in the directory, moved into it, or given to another
// user, and one at first. stop ends that.
func (w *Watcher) Arrivals(dir string) (arrived <-chan struct{}, stop func(), err error) {
	watch, err := w.add(dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ATTRIB|unix.IN_ONLYDIR)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	return watch.written, func() { w.remove(watch) }, nil
}

// add watches the path for the events of mask.
func (w *Watcher) add(path string, mask uint32) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := &watch{written: make(chan struct{}, 1)}
	added.written <- struct{}{} // what was written before raises no event
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
		w.watches[added.descriptor] = map[*watch]struct{}{}
	}
	w.watches[added.descriptor][added] = struct{}{}
	return added, nil
}

// remove undoes add.
func (w *Watcher) remove(old *watch) {
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

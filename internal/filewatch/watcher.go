// Package filewatch notices changes of files and directories, by inotify(7).
package filewatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Watcher wakes goroutines that wait for changes. All of a process share one, because the kernel gives a user few
// instances (fs.inotify.max_user_instances). A goroutine is woken each pollEvery instead if the kernel has no instance,
// or no watch (fs.inotify.max_user_watches), for it. Its methods are safe for concurrent use.
type Watcher struct {
	file    *os.File // nil: the kernel had no instance
	refused error    // why

	mu      sync.Mutex
	watches map[int32]map[*Watch]struct{} // by their descriptors; all watches of one file have one descriptor
	polled  map[*Watch]struct{}
	needed  chan struct{} // has room for one: there are polled ones
	closed  bool
}

// pollEvery is how late a change may be noticed without the kernel.
const pollEvery = 250 * time.Millisecond

// A Watch is of one file or directory, for one that waits.
type Watch struct {
	descriptor int32 // polled: the kernel has no such watch
	changed    chan struct{}
}

const polled = -1

// Changed returns a channel that holds an element at first, and after each change since the last receive.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// New returns a Watcher, which notices nothing until Run runs.
func New() (*Watcher, error) { return newWatcher(unix.InotifyInit1) }

func newWatcher(instance func(flags int) (int, error)) (*Watcher, error) {
	w := &Watcher{watches: map[int32]map[*Watch]struct{}{}, polled: map[*Watch]struct{}{},
		needed: make(chan struct{}, 1)}
	fd, err := instance(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	switch {
	case err == nil:
		w.file = os.NewFile(uintptr(fd), "inotify")
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		w.refused = fmt.Errorf("the kernel reports no changes of files (%w), so they are looked for every %s: raise the "+
			"sysctl fs.inotify.max_user_instances, and restart", err, pollEvery)
	default:
		return nil, fmt.Errorf("cannot watch files: %w", err)
	}
	return w, nil
}

// Refused is why changes are looked for instead of reported, for an operator; nil if the kernel reports them.
func (w *Watcher) Refused() error { return w.refused }

// Run wakes those that wait until ctx is done, and then closes the Watcher and returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	var polling sync.WaitGroup
	polling.Go(func() { w.poll(work) })
	defer polling.Wait()
	defer cancel()
	if w.file == nil {
		<-ctx.Done()
		return w.Close()
	}
	return w.read(ctx)
}

// poll wakes the watches that the kernel does not, and sleeps without any.
func (w *Watcher) poll(ctx context.Context) {
	for {
		select {
		case <-w.needed:
		case <-ctx.Done():
			return
		}
		for w.wakePolled() {
			select {
			case <-time.After(pollEvery):
			case <-ctx.Done():
				return
			}
		}
	}
}

// wakePolled reports whether there are any.
func (w *Watcher) wakePolled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake(w.polled)
	return len(w.polled) > 0
}

// read wakes those that the kernel reports changes of.
func (w *Watcher) read(ctx context.Context) error {
	defer func() { _ = w.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
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
func (w *Watcher) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// Len returns the number of watches.
func (w *Watcher) Len() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = len(w.polled)
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
	added.changed <- struct{}{} // earlier changes raise no event
	err := w.control(func(fd int) (err error) {
		descriptor, err := unix.InotifyAddWatch(fd, path, mask)
		added.descriptor = int32(descriptor)
		return err
	})
	switch {
	case errors.Is(err, errNoInstance), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM):
		return w.addPolled(added, path, mask)
	case err != nil:
		return nil, err
	}
	if w.watches[added.descriptor] == nil {
		w.watches[added.descriptor] = map[*Watch]struct{}{}
	}
	w.watches[added.descriptor][added] = struct{}{}
	return added, nil
}

// addPolled is for a watch that the kernel has no room for. It fails where the kernel would.
func (w *Watcher) addPolled(added *Watch, path string, mask uint32) (*Watch, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case mask&unix.IN_ONLYDIR != 0 && !info.IsDir():
		return nil, &os.PathError{Op: "watch", Path: path, Err: unix.ENOTDIR}
	}
	added.descriptor = polled
	w.polled[added] = struct{}{}
	select {
	case w.needed <- struct{}{}:
	default: // poll will look anyway
	}
	return added, nil
}

// Remove undoes Add.
func (w *Watcher) Remove(old *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old.descriptor == polled {
		delete(w.polled, old)
		return
	}
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

var errNoInstance = errors.New("the kernel had no instance")

func (w *Watcher) control(f func(fd int) error) error {
	switch {
	case w.closed:
		return os.ErrClosed
	case w.file == nil:
		return errNoInstance
	}
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

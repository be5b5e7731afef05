package logs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/filewatch"
)

// A Watcher notices that files are written or arrive. All followers of a process share one. Its methods are safe for
// concurrent use.
type Watcher struct{ *filewatch.Watcher }

// NewWatcher returns a Watcher, which notices nothing until Run runs.
func NewWatcher() (*Watcher, error) {
	w, err := filewatch.New()
	return &Watcher{w}, err
}

// Arrivals returns a channel that has an element after a file was made in the directory, moved into it, or given to
// another user, and one at first. stop ends that.
func (w *Watcher) Arrivals(dir string) (arrived <-chan struct{}, stop func(), err error) {
	watch, err := w.Add(dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ATTRIB|unix.IN_ONLYDIR)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot watch %s: %w", dir, err)
	}
	return watch.Changed(), func() { w.Remove(watch) }, nil
}

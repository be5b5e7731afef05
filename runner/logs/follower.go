package logs

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/filewatch"
)

// A Follower waits for more of a log that is written. It belongs to the goroutine of its Reader:
//
//	lines := logs.NewLines(reader)
//	for {
//		line, err := lines.Next()
//		if errors.Is(err, io.EOF) {
//			err = follower.Wait(ctx)
//		}
//		…
//	}
//
// As the Reader reads files, a slow one loses nothing, and holds nothing in memory but its buffer.
type Follower struct {
	reader  *Reader
	watcher *Watcher
	watch   *filewatch.Watch
	ended   <-chan struct{}
}

// Follow returns a Follower of the log of the Reader. The channel ended is closed when the writing process has ended,
// and with it the log. The caller closes the Follower.
func (w *Watcher) Follow(r *Reader, ended <-chan struct{}) (*Follower, error) {
	watch, err := w.Add(fmt.Sprintf("/proc/self/fd/%d", r.index.Fd()), unix.IN_MODIFY)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the log %s: %w", r.index.Name(), err)
	}
	return &Follower{reader: r, watcher: w, watch: watch, ended: ended}, nil
}

// Close releases the watch. The Reader stays open.
func (f *Follower) Close() { f.watcher.Remove(f.watch) }

// Wait returns nil when the Reader should be read again, io.EOF when the log has ended and the Reader was read since,
// and the cause of ctx when that is done.
func (f *Follower) Wait(ctx context.Context) error {
	if f.reader.complete {
		return io.EOF
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.watch.Changed():
	case <-f.ended:
		f.reader.Complete()
	}
	return nil
}

package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/nudge"
)

const (
	// pause is the time between two looks without a source of changes.
	pause = time.Second
	// slowPause is the same with one: files are edited, and units enabled, without an event.
	slowPause = 10 * time.Second
)

// watch shows every change; a terminal always has the present page.
func (l *Listing[T]) watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	redraw := cli.IsTerminal(l.Stdout) && !l.JSON
	s := l.follow(ctx)
	defer s.end()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var shown []byte
	var list T
	for due := true; ; {
		if due {
			var err error
			switch list, err = l.Collect(ctx); {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			s.looked = time.Now()
		}
		if due || redraw {
			var err error
			if shown, err = l.show(list, shown, redraw); err != nil {
				return err
			}
		}
		select {
		case <-s.changed:
			due = true
		case now := <-tick.C:
			due = s.due(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// source is the source of changes of one watch.
type source struct {
	changed nudge.Nudge
	end     func()
	live    atomic.Bool // it reports changes
	looked  time.Time   // belongs to the watch
}

// due reports whether it is time to look without a change.
func (s *source) due(now time.Time) bool {
	return !s.live.Load() || now.Sub(s.looked) >= slowPause
}

// follow follows the changes of the list until the end of the source. While there is no source, the watch looks again
// and again.
func (l *Listing[T]) follow(ctx context.Context) *source {
	ctx, cancel := context.WithCancel(ctx)
	s := &source{changed: nudge.New()}
	var following sync.WaitGroup
	s.end = func() { cancel(); following.Wait() }
	if l.Changes == nil {
		return s
	}
	following.Go(func() {
		for ctx.Err() == nil {
			_ = l.Changes(ctx, func() { s.live.Store(true); s.changed.Touch() }) // without it, the watch looks by itself
			s.live.Store(false)
			select {
			case <-time.After(slowPause):
			case <-ctx.Done():
			}
		}
	})
	return s
}

// show shows a list unless it is the one that was shown, and returns it as JSON.
func (l *Listing[T]) show(list T, shown []byte, redraw bool) ([]byte, error) {
	now, err := json.Marshal(list)
	if err != nil || !redraw && bytes.Equal(now, shown) {
		return now, err
	}
	page, err := l.page(list)
	if err != nil {
		return nil, err
	}
	switch {
	case redraw:
		page = append([]byte(clearScreen), page...)
	case shown != nil && !l.JSON:
		fmt.Fprintln(l.Stdout)
	}
	_, err = l.Stdout.Write(page)
	return now, err
}

package remotewatch

import (
	"context"
	"sync"
	"time"

	"codex-proxy/remotes"
)

const (
	// period is how often the remotes that run are asked. Their states come by signals.
	period = 10 * time.Second
	// askBound bounds one question. While it lasts, the last answer holds.
	askBound = 2 * time.Second
	// atATime bounds the questions at the same time.
	atATime = 8
	// restBefore and restAfter are the time around the end of a remote that nobody uses in which it is not asked: a
	// connection that comes as it ends would start it again.
	restBefore, restAfter = time.Second, 15 * time.Second
)

// Run asks the remotes that run, every ten seconds and when one has become ready, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		w.askAll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.wake:
		}
	}
}

func (w *Watch) askAll(ctx context.Context) {
	var all sync.WaitGroup
	places := make(chan struct{}, atATime)
	for _, name := range w.running(time.Now()) {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			bounded, cancel := context.WithTimeout(ctx, askBound)
			defer cancel()
			st, err := w.settings.Ask(bounded, name)
			if ctx.Err() == nil {
				w.answered(name, st, err, time.Now())
			}
		})
	}
	all.Wait()
}

// running are the remotes that can be asked.
func (w *Watch) running(now time.Time) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.states {
		ends := !s.restsAt.IsZero() && now.After(s.restsAt.Add(-restBefore)) && now.Before(s.restsAt.Add(restAfter))
		if s.published.Ready && !ends {
			names = append(names, name)
		}
	}
	return names
}

func (w *Watch) answered(name string, st remotes.Status, err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[name]
	switch {
	case s == nil || !s.published.Ready: // it has ended meanwhile
	case err == nil:
		s.answered(st, now)
	case !s.mute:
		s.mute = true
		w.settings.Logger.Warn("cannot read the status of a remote", "remote", name, "error", err)
	}
}

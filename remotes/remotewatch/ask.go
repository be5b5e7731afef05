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
	// watchedPeriod is the same while someone watches.
	watchedPeriod = time.Second
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
	tick := time.NewTimer(period)
	defer tick.Stop()
	for {
		w.askAll(ctx)
		tick.Reset(w.pause())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.wake:
		}
	}
}

// pause is the time until the next questions.
func (w *Watch) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers > 0 {
		return watchedPeriod
	}
	return period
}

// Watched has the remotes asked each second until end is called.
func (w *Watch) Watched() (end func()) {
	w.mu.Lock()
	w.watchers++
	w.mu.Unlock()
	w.touch()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watchers--
	}
}

func (w *Watch) touch() {
	select {
	case w.wake <- struct{}{}:
	default: // the token that is there covers this change, too
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
	if w.take(name, st, err, now) {
		w.settings.OnChange()
	}
}

func (w *Watch) take(name string, st remotes.Status, err error, now time.Time) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[name]
	switch {
	case s == nil || !s.published.Ready: // it has ended meanwhile
	case err == nil:
		changed = s.answered(st, now)
	case !s.mute:
		s.mute = true
		w.settings.Logger.Warn("cannot read the status of a remote", "remote", name, "error", err)
	}
	return changed
}

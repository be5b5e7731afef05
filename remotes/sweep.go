package remotes

import (
	"context"
	"errors"
	"time"
)

// sweepPeriod is how often the manager looks for changes that no message reports.
const sweepPeriod = time.Second

// sweep answers tools of clients that are gone, forgets records that nothing ends, and rests when all is idle.
func (l *codexConn) sweep(ctx context.Context) {
	t := time.NewTicker(sweepPeriod)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		reports{l}.answerTools()
		l.forgetStale()
		l.unload(time.Now())
		l.rest()
	}
}

func (l *codexConn) forgetStale() {
	var threads []string
	l.update(func(s *state) { threads = s.stale(time.Now()) })
	if len(threads) == 0 {
		return
	}
	l.opts.Logger.Debug("turns that codex does not run are forgotten", "thread_ids", threads)
	l.record(func(s *state) {
		for _, id := range threads {
			s.drop(id, time.Now())
		}
	})
}

// unloadAfter is how long the manager stays subscribed to a thread that does not run, which keeps it loaded (2 MiB).
// Codex refuses to resume a thread while it unloads it, so that must not follow the end of a turn, when users attach
// again.
const unloadAfter = 10 * time.Minute

// unload ends subscriptions, so that codex can unload the threads.
func (l *codexConn) unload(now time.Time) {
	l.update(func(s *state) {
		for id, t := range s.threads {
			if t.subscribed && t.held == 0 && !t.status.Active() && s.journal.Threads[id] == nil &&
				now.Sub(t.changed) > unloadAfter {
				t.subscribed = false
				l.c.Post("thread/unsubscribe", threadParams{id}, nil) // before any later thread/resume
			}
		}
	})
}

// rest closes Resting, once.
func (m *Manager) rest() {
	m.update(func(s *state) {
		if rests := idle(s, m.opts.IdleStop, time.Now()); rests && !s.rested {
			s.rested = true
			close(m.resting)
		}
	})
}

// ErrBusy is the error of Renew for a remote with turns.
var ErrBusy = errors.New("a turn runs, or the remote is just starting")

// Renew has the remote start again, with the codex that is in use by then, if no turn runs. Clients that are attached
// attach again. A message from then on waits for the next process, which sends it.
func (m *Manager) Renew() error {
	err := ErrBusy
	m.update(func(s *state) {
		if s.link == nil || s.busy() || s.rested || s.renewed || m.opts.Restart == nil {
			return
		}
		err = m.opts.Restart()
		s.renewed = err == nil
	})
	return err
}

// renewal bounds the end of this process after Renew.
const renewal = 10 * time.Second

// renewing keeps a message that is recorded from a codex that is about to end, until its connection has ended.
func renewing(s *state) bool { return s.renewed && s.link != nil }

// idle reports whether a remote has been without users and turns for bound; 0 bounds nothing.
func idle(s *state, bound time.Duration, now time.Time) bool {
	return bound > 0 && s.link != nil && len(s.clients) == 0 && !s.busy() && now.Sub(s.since) >= bound
}

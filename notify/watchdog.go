package notify

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WatchdogInterval is the longest time between pings that the service manager
// accepts: WatchdogSec= of the unit, 0 if it does not watch this process.
func (n *Notifier) WatchdogInterval() time.Duration {
	if n == nil {
		return 0
	}
	return n.watchdog
}

// watchdogPace is the period of RunWatchdog's checks for a given interval, and the
// bound of each. As both are a third, a passing check that begins in time and uses
// its whole bound still leaves a third of the interval.
func watchdogPace(interval time.Duration) time.Duration { return interval / 3 }

// RunWatchdog calls check every third of interval and pings the service manager
// after each pass. A check that fails, or takes longer than that third, withholds
// the ping: after interval the service manager kills and restarts this process,
// unless a later check passes first. RunWatchdog logs the first of consecutive
// failures.
//
// check must return soon after its context is done. RunWatchdog returns nil when
// ctx is done, and at once if n is nil or interval is not positive.
func (n *Notifier) RunWatchdog(ctx context.Context, interval time.Duration, check func(context.Context) error) error {
	pace := watchdogPace(interval)
	w := watchdog{notifier: n, interval: interval, pace: pace, bound: pace, check: check}
	w.run(ctx)
	return nil
}

// watchdog belongs to the one goroutine that runs it.
type watchdog struct {
	notifier *Notifier
	interval time.Duration
	pace     time.Duration // the period of checks that pass
	bound    time.Duration // of one check
	check    func(context.Context) error
	failing  time.Time // when the consecutive failures began; zero while checks pass
}

// run checks until ctx is done.
func (w *watchdog) run(ctx context.Context) {
	if w.notifier == nil || w.interval <= 0 {
		return
	}
	timer := time.NewTimer(w.pace)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			began := time.Now()
			w.beat(ctx)
			timer.Reset(max(0, w.wait()-time.Since(began)))
		}
	}
}

func (w *watchdog) beat(ctx context.Context) {
	began := time.Now()
	err := w.bounded(ctx)
	switch {
	case ctx.Err() != nil: // shutdown has cut the check short
	case err == nil:
		w.passed()
		w.notifier.Ping()
	case w.failing.IsZero():
		w.failing = began
		w.notifier.logger.Error("watchdog: pings withheld", "error", err, "interval", w.interval)
	}
}

func (w *watchdog) passed() {
	if !w.failing.IsZero() {
		w.notifier.logger.Info("watchdog: pings resumed", "after", time.Since(w.failing))
		w.failing = time.Time{}
	}
}

// bounded counts a check that passes too late as failed.
func (w *watchdog) bounded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.bound)
	defer cancel()
	err := w.check(ctx)
	if err == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("check passed only after its %v", w.bound)
	}
	return err
}

// wait is shorter while checks fail, to detect a recovery within the interval.
func (w *watchdog) wait() time.Duration {
	if w.failing.IsZero() {
		return w.pace
	}
	return w.pace / 4
}

package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"codex-proxy/notify"
)

// startEnded is the cause of a preparation that systemd has ended: only TimeoutStartSec= bounds the runs of codex, so
// that a slow machine can have a longer one.
type startEnded struct{ signal syscall.Signal }

func (c *startEnded) Error() string {
	return "systemd has ended the start: the unit was stopped, or TimeoutStartSec= has passed " +
		"(`systemctl edit` the unit to set a longer one for a slow machine)"
}

// WithSignals calls step with a context that ends with SIGTERM or SIGINT. The error is a *cut then.
func WithSignals(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case s := <-signals:
			cancel(&startEnded{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	})
	err := step(ctx)
	cancel(nil)
	watch.Wait()
	var c *startEnded
	if !errors.As(context.Cause(ctx), &c) || errors.Is(err, c) {
		return err
	}
	if err == nil {
		return c
	}
	return fmt.Errorf("%w: %w", c, err)
}

// ExitBySignal ends this process by the signal with which systemd has ended the start, if err is of that: systemd
// counts SIGTERM, but no exit status, as a clean end of a main process that it has stopped.
func ExitBySignal(err error) {
	var c *startEnded
	if errors.As(err, &c) {
		notify.Exit(syscall.WaitStatus(c.signal))
	}
}

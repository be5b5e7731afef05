package responses

import (
	"context"
	"errors"
	"time"

	"codex-proxy/proxy/stored"
)

// await waits until a response of another host has ended, and reads its events then. It breaks the silence of the
// stream.
func (f *follower) await(ctx context.Context) (err error) {
	for f.reader == nil {
		again := time.NewTimer(f.patienceElsewhere())
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		if f.keepalive && time.Since(f.sent) >= f.Keepalive {
			f.sent = time.Now()
			if err := f.stream.Keepalive(); err != nil {
				return err
			}
		}
		if err := f.look(ctx); err != nil && !errors.Is(err, stored.ErrUnavailable) {
			return err
		}
		f.reader, err = f.Store.ReadLog(ctx, f.owner, f.id, f.after)
		if err != nil && !errors.Is(err, stored.ErrElsewhere) && !errors.Is(err, stored.ErrUnavailable) {
			return err
		}
	}
	return nil
}

// patienceElsewhere is the longest that await waits.
func (f *follower) patienceElsewhere() time.Duration {
	if !f.keepalive {
		return lookAgain
	}
	return max(0, min(lookAgain, time.Until(f.sent.Add(f.Keepalive))))
}

// count is the number of events that the client has, or that it skips.
func (f *follower) count() int {
	if f.reader == nil {
		return f.after + 1
	}
	return f.reader.Count()
}

func (f *follower) close() {
	if f.reader != nil {
		f.reader.Close()
	}
}

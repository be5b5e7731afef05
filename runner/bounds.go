package runner

import (
	"context"
	"errors"
	"log/slog"
)

// bounds keeps mirrors and workspaces within their bounds. It has no state but its channel.
type bounds struct {
	parts  []func(context.Context) error // remove the excess over a bound
	due    chan struct{}                 // holds one element if a part may be beyond its bound
	logger *slog.Logger
}

func newBounds(logger *slog.Logger) *bounds {
	return &bounds{due: make(chan struct{}, 1), logger: logger}
}

// check wakes keep.
func (b *bounds) check() {
	select {
	case b.due <- struct{}{}:
	default:
	}
}

// keep removes the things beyond the bounds now and after each check, until ctx is done.
func (b *bounds) keep(ctx context.Context) {
	for {
		var err error
		for _, part := range b.parts {
			err = errors.Join(err, part(ctx))
		}
		if err != nil && ctx.Err() == nil {
			b.logger.Error("cannot keep mirrors and workspaces within their bounds", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-b.due:
		}
	}
}

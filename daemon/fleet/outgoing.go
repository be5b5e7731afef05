package fleet

import (
	"context"
	"log/slog"

	"codex-proxy/proxy/usage"
)

// UsageSource has the usage of this host that the database does not have yet: a usage.Outbox.
type UsageSource interface {
	Unsent(ctx context.Context, most int) ([]usage.Row, error)
	Sent(ctx context.Context, rows []usage.Row) error
	Close()
}

// outgoing brings the usage of this host to the database.
type outgoing struct {
	source  UsageSource // nil: usage is not counted
	logger  *slog.Logger
	failing bool // and that was logged
}

// rows returns the usage for the next exchange.
func (o *outgoing) rows(ctx context.Context) []usage.Row {
	if o.source == nil {
		return nil
	}
	rows, err := o.source.Unsent(ctx, maxUsage)
	o.failed(ctx, err)
	return rows
}

// sent forgets the usage that an exchange has brought. If it cannot, the next one brings the same rows again.
func (o *outgoing) sent(ctx context.Context, rows []usage.Row) {
	if len(rows) > 0 {
		o.failed(ctx, o.source.Sent(ctx, rows))
	}
}

func (o *outgoing) failed(ctx context.Context, err error) {
	if err != nil && !o.failing && ctx.Err() == nil {
		o.logger.Warn("usage is not brought to the database for now", "error", err)
	}
	o.failing = err != nil
}

func (o *outgoing) close() {
	if o.source != nil {
		o.source.Close()
	}
}

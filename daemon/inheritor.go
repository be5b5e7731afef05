package daemon

import (
	"context"
	"log/slog"

	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/succession"
	"codex-proxy/notify/handoff"
	"codex-proxy/remotes/links"
)

// inheritor follows the predecessor while that finishes its work.
type inheritor struct {
	predecessor *succession.Predecessor
	started     <-chan struct{}
	ledger      *inflight.Ledger
	changes     *changes
	estate      *estate
	textfile    *textfileKeeper
	links       *links.Links
	logger      *slog.Logger
}

// follow counts the load of the predecessor until that has ended.
func (i *inheritor) follow(ctx context.Context) error {
	if i.predecessor.Exists() {
		if !await(ctx, i.started) {
			return nil
		}
		i.logger.Info("took over; the process before finishes its turns")
		i.textfile.dropBefore()
		if i.predecessor.Follow(ctx, i.count, i.adopt) != nil {
			return nil
		}
		i.ledger.SetBefore(inflight.Load{})
		i.textfile.dropBefore() // the predecessor may have written it once more
	}
	i.predecessor.End()
	i.changes.reportChanged()
	return nil
}

// adopt goes on with a connection to a remote.
func (i *inheritor) adopt(m handoff.Message) {
	if err := i.links.Adopt(m.Body, m.Files); err != nil {
		i.logger.Error("the reload has lost a connection of an API key to a remote", "error", err)
	}
}

func (i *inheritor) count(l inflight.Load) {
	i.ledger.SetBefore(l)
	i.changes.reportChanged()
}

// poll asks a predecessor that reports no load for its turns.
func (i *inheritor) poll(ctx context.Context) error {
	if await(ctx, i.started) && i.estate.withoutLoad {
		i.predecessor.PollTurns(ctx)
	}
	return nil
}

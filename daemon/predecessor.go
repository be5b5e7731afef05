package daemon

import (
	"context"
	"log/slog"

	"codex-proxy/daemon/inflight"
	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/reload"
	"codex-proxy/daemon/textfile"
	"codex-proxy/notify/handoff"
	"codex-proxy/remotes/links"
)

// predecessorWatch follows the predecessor while that finishes its work.
type predecessorWatch struct {
	predecessor *reload.Predecessor
	started     <-chan struct{}
	counter     *inflight.Counter
	changes     *changes
	state       *daemonState
	textfile    *textfile.Keeper
	links       *links.Links
	recent      *recent.Recent
	logger      *slog.Logger
}

// follow counts the load of the predecessor until that has ended.
func (i *predecessorWatch) follow(ctx context.Context) error {
	if i.predecessor.Exists() {
		if !await(ctx, i.started) {
			return nil
		}
		i.logger.Info("took over; the process before finishes its turns")
		i.textfile.DropBefore()
		if i.predecessor.Follow(ctx, i.count, i.adopt) != nil {
			return nil
		}
		i.counter.SetBefore(inflight.Load{})
		i.textfile.DropBefore() // the predecessor may have written it once more
	}
	i.predecessor.End()
	i.changes.reportChanged()
	return nil
}

// adopt takes over from the predecessor: a connection to a remote, or its requests and numbers.
func (i *predecessorWatch) adopt(m handoff.Message) {
	if m.Kind != handoff.Link {
		if err := i.recent.Adopt(m); err != nil {
			i.logger.Error("the reload has lost requests or numbers of the process before", "error", err)
		}
		return
	}
	if err := i.links.Adopt(m.Body, m.Files); err != nil {
		i.logger.Error("the reload has lost a connection of an API key to a remote", "error", err)
	}
}

func (i *predecessorWatch) count(l inflight.Load) {
	i.counter.SetBefore(l)
	i.changes.reportChanged()
}

// poll asks a predecessor that reports no load for its turns.
func (i *predecessorWatch) poll(ctx context.Context) error {
	if await(ctx, i.started) && i.state.withoutLoad {
		i.predecessor.PollTurns(ctx)
	}
	return nil
}

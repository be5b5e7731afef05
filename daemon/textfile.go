package daemon

import (
	"context"
	"log/slog"
	"sync"

	"codex-proxy/daemon/succession"
	"codex-proxy/internal/promfile"
)

// textfileKeeper keeps the file for node exporter while this process serves.
type textfileKeeper struct {
	path      string
	writer    *promfile.Writer // nil: the settings want none
	started   <-chan struct{}
	successor *succession.Successor
	logger    *slog.Logger

	before string // the file of the predecessor; set before started is closed
}

// dropBefore removes the file of the predecessor, unless this process writes it. A process
// that has a successor leaves that to it.
func (k *textfileKeeper) dropBefore() {
	if k.before != "" && k.before != k.path && !k.successor.Serves() {
		promfile.Remove(k.before, k.logger)
	}
}

// run writes the file until this process has a successor, which then writes it. It removes
// the file when the service ends.
func (k *textfileKeeper) run(ctx context.Context) error {
	if k.writer == nil || !await(ctx, k.started) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var replaced sync.WaitGroup
	replaced.Go(func() {
		defer cancel()
		await(ctx, k.successor.Serving())
	})
	err := k.writer.Run(ctx)
	cancel()
	replaced.Wait()
	if !k.successor.Serves() {
		k.writer.Remove()
	}
	return err
}

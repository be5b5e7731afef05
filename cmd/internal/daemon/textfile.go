package daemon

import (
	"context"
	"sync"

	"codex-proxy/cmd/internal/textfile"
)

// newTextfile is the file for node exporter; nil where the settings want none.
func (d *Daemon) newTextfile() *textfile.Writer {
	if d.cfg.Textfile == "" {
		return nil
	}
	return textfile.New(d.cfg.Textfile, d.version, d.report, d.logger)
}

// dropTextfile removes the file of the process before, unless it is ours now, or
// not ours to judge any more.
func (d *Daemon) dropTextfile() {
	if old := d.handoff.wrote; old != "" && old != d.cfg.Textfile && !d.replaced() {
		textfile.Remove(old, d.logger)
	}
}

// keepTextfile writes it as long as this is the process that serves. It is
// removed when the service ends, and left to a successor.
func (d *Daemon) keepTextfile(ctx context.Context) error {
	if d.textfile == nil {
		return nil
	}
	select {
	case <-d.handoff.started:
	case <-ctx.Done():
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var left sync.WaitGroup
	left.Go(func() {
		defer cancel()
		select {
		case <-d.handoff.replaced:
		case <-ctx.Done():
		}
	})
	err := d.textfile.Run(ctx)
	cancel()
	left.Wait()
	if !d.replaced() {
		d.textfile.Remove()
	}
	return err
}

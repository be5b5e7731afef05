package main

import (
	"context"
	"errors"
	"sync"
)

// alive is the proof of life behind WATCHDOG=1: every loop of ours has made a
// pass. All are asked at once and each has the whole time, so that the error
// names the loops that are stuck and no others.
func (d *daemon) alive(ctx context.Context) error {
	loops := []func(context.Context) error{d.watcher.Alive, d.pool.Alive, d.server.Alive}
	errs := make([]error, len(loops))
	var g sync.WaitGroup
	for i, loop := range loops {
		g.Go(func() { errs[i] = loop(ctx) })
	}
	g.Wait()
	return errors.Join(errs...)
}

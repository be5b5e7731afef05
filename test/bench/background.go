package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// backgrounds is how many responses run in the background at once.
const backgrounds = 1000

// background is what responses in the background add to the memory of the daemon while no client waits for any of them:
// all of them have begun, those that are polled and those whose events are kept.
func (b *bench) background(ctx context.Context) error {
	for _, kind := range []struct {
		what   string
		stream bool
	}{{"", false}, {", streamed", true}} {
		err := b.with(ctx, backgrounds/96+1, func(d *daemon) error { return b.inBackground(ctx, d, kind.what, kind.stream) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) inBackground(ctx context.Context, d *daemon, what string, stream bool) error {
	before, err := d.used(ctx)
	if err != nil {
		return err
	}
	files, err := d.files()
	if err != nil {
		return err
	}
	with, open, err := d.crowd(ctx, stream)
	if err != nil {
		return err
	}
	what = fmt.Sprintf("%d responses in the background%s", backgrounds, what)
	b.result.One("RSS: "+what+", added", "MiB", 60, with-before)
	b.result.One("open files: "+what+", added", "", 0, float64(open-files))
	again, _, err := d.crowd(ctx, stream)
	b.result.One("RSS: "+what+", added, again", "MiB", 1.1*(with-before), again-before)
	return err
}

// crowd is the memory and the open files with so many responses in the background, all of which it cancels.
func (d *daemon) crowd(ctx context.Context, stream bool) (rss float64, files int, err error) {
	r := d.responses()
	defer r.CloseIdleConnections()
	ids, err := r.beginAll(ctx, backgrounds, stream)
	if err != nil {
		return 0, 0, err
	}
	r.CloseIdleConnections()
	if rss, err = d.memory("VmRSS"); err != nil {
		return 0, 0, err
	}
	if files, err = d.files(); err != nil {
		return 0, 0, err
	}
	return rss, files, r.cancelAll(ctx, ids)
}

// beginAll begins so many responses, and returns when each has begun.
func (r responses) beginAll(ctx context.Context, n int, stream bool) ([]string, error) {
	ids := make([]string, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range ids {
		g.Go(func() (err error) {
			if ids[i], err = r.begin(ctx, askHold, stream); err != nil {
				return err
			}
			if stream {
				_, err = r.resume(ctx, ids[i], 0, "delta")
				return err
			}
			return until(ctx, ids[i], func() error { return r.is(ctx, ids[i], "in_progress") })
		})
	}
	return ids, g.Wait()
}

// is is an error if a response has another status.
func (r responses) is(ctx context.Context, id, want string) error {
	status, err := r.status(ctx, id)
	if err == nil && status != want {
		err = fmt.Errorf("a response is %s, and not %s", status, want)
	}
	return err
}

// cancelAll cancels them, and polls each once.
func (r responses) cancelAll(ctx context.Context, ids []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for _, id := range ids {
		g.Go(func() error {
			if err := r.cancel(ctx, id); err != nil {
				return err
			}
			return r.is(ctx, id, "cancelled")
		})
	}
	return g.Wait()
}

package listing

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// atATime bounds the questions at the same time: each is a connection to the bus, or to a service.
const atATime = 16

// Each makes a row of each name, in their order, several at a time. The error is the first one; the others stop.
func Each[T any](ctx context.Context, names []string, row func(context.Context, string) (T, error)) ([]T, error) {
	rows := make([]T, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for i, name := range names {
		g.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				rows[i], err = row(ctx, name)
			}
			return err
		})
	}
	return rows, g.Wait()
}

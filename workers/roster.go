package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown is a name that no worker of the pool has.
var ErrUnknown = errors.New("no such worker")

// roster is the workers of a pool, in the order of the settings. It never changes.
type roster []*Worker

// Names are the names of all workers, in the pool's order.
func (r roster) Names() []string {
	names := make([]string, 0, len(r))
	for _, w := range r {
		names = append(names, w.name)
	}
	return names
}

func (r roster) find(name string) (*Worker, error) {
	i := slices.IndexFunc(r, func(w *Worker) bool { return w.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(r.Names(), ", "))
	}
	return r[i], nil
}

// AwaitIdle returns nil when each of the named workers has been seen without a
// turn in flight, or ctx's error. It is meant for drained workers: the others may
// get turns again meanwhile.
func (r roster) AwaitIdle(ctx context.Context, names ...string) error {
	for _, name := range names {
		w, err := r.find(name)
		if err != nil {
			return err
		}
		if err := w.awaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *Worker) awaitIdle(ctx context.Context) error {
	for {
		s, changed := w.view()
		if s.turns() == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("worker %s has turns in flight: %w", w.name, ctx.Err())
		}
	}
}

package queue

import (
	"context"
	"slices"
)

// Place is the place of a response in its lane.
type Place struct {
	*Lanes
	of   Lane
	turn chan struct{} // closed when it is the first
}

// Join takes the last place in a lane, until leave.
func (l *Lanes) Join(of Lane) *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &Place{Lanes: l, of: of, turn: make(chan struct{})}
	if l.byLane[of] = append(l.byLane[of], p); len(l.byLane[of]) == 1 {
		close(p.turn)
	}
	return p
}

// Wait waits until the response is the first in its lane.
func (p *Place) Wait(ctx context.Context) error {
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave gives the place up, and lets the next one through. It may be called several times.
func (p *Place) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.byLane[p.of]
	at := slices.Index(all, p)
	if at < 0 {
		return
	}
	if all = slices.Delete(all, at, at+1); len(all) == 0 {
		delete(p.byLane, p.of)
		return
	}
	p.byLane[p.of] = all
	if at == 0 {
		close(all[0].turn)
	}
}

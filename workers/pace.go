package workers

import (
	"sync"
	"time"
)

// paceWeight is about how many turns it takes for an old pace to fade.
const paceWeight = 16

// pace is the moving mean of how long turns hold their slots.
type pace struct {
	mu   sync.Mutex
	held time.Duration
}

func (p *pace) add(held time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == 0 {
		p.held = held
	}
	p.held += (held - p.held) / paceWeight
}

func (p *pace) mean() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

package workers

import "time"

// Pick is Acquire without the queue.
func (p *Pool) Pick(model string) (*Lease, error) { return p.pick(Ask{Model: model}) }

// SetQueueTimeout is for later requests.
func (p *Pool) SetQueueTimeout(d time.Duration) { p.queue.Timeout = d }

// PickFor is Acquire without a wait.
func (p *Pool) PickFor(a Ask) (*Lease, error) {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.pick(a)
}

// SetClock sets the time at which the pool chooses by quota.
func (p *Pool) SetClock(now func() time.Time) {
	if p.rotation != nil {
		p.rotation.now = now
	}
}

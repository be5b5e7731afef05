package workers

import "time"

// Pick is Acquire without the queue.
func (p *Pool) Pick(model string) (*Lease, error) { return p.pick(Ask{Model: model}) }

// SetQueueTimeout is for later requests.
func (p *Pool) SetQueueTimeout(d time.Duration) { p.queue.Timeout = d }

package workers

import "time"

// Pick is what Admit does without waiting.
func (p *Pool) Pick(model string) (*Lease, error) { return p.pick(Ask{Model: model}) }

// SetQueueTimeout is for requests that come after it.
func (p *Pool) SetQueueTimeout(d time.Duration) { p.queue.Timeout = d }

// WindowName is what a limit's window is called.
func WindowName(minutes int64) string { return windowName(minutes) }

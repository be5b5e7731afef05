package workers

// Pick is what Admit does without waiting.
func (p *Pool) Pick(model string) (*Lease, error) { return p.pick(Ask{Model: model}) }

// WindowName is what a limit's window is called.
func WindowName(minutes int64) string { return windowName(minutes) }

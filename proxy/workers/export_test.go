package workers

// Pick is what Admit does without waiting.
func (p *Pool) Pick(model string) (*Lease, error) { return p.pick(Ask{Model: model}) }

package control

import "sync"

// Changes are the changes of the report, for all that wait for one. It is safe for concurrent use.
type Changes struct {
	mu   sync.Mutex
	next chan struct{} // closed and replaced by Changed
}

// NewChanges returns Changes before the first change.
func NewChanges() *Changes { return &Changes{next: make(chan struct{})} }

// Changed notes that the report may have changed. It never blocks.
func (c *Changes) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// Next is closed by the next change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

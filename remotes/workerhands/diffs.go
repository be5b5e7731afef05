package workerhands

import (
	"fmt"
	"sync"
	"time"

	"codex-proxy/proxy/turn"
)

const (
	// mostDiffs bounds the patches that are made and sent at the same time, and mostOfKey those of one API key: each
	// takes several times its size of the memory of a unit, with which all of its sessions would end.
	mostDiffs, mostOfKey = 8, 2
	// retryDiff is when a client may ask again.
	retryDiff = 5 * time.Second
)

// codeDiffsFull is the code of a further one.
const codeDiffsFull turn.HandsCode = "diffs_full"

// diffs counts the patches that are made and sent.
type diffs struct {
	mu    sync.Mutex
	all   int
	ofKey map[string]int // by the name of the key
}

// begin counts one more until end is called.
func (d *diffs) begin(key string) (end func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	full := func(words string) error {
		return &turn.HandsError{Code: codeDiffsFull, Words: words, Retry: retryDiff}
	}
	switch {
	case d.ofKey[key] >= mostOfKey:
		return nil, full(fmt.Sprintf("this API key takes %d diffs already; take one after the other", mostOfKey))
	case d.all >= mostDiffs:
		return nil, full(fmt.Sprintf("%d diffs are taken already; send the request again", mostDiffs))
	}
	if d.ofKey == nil {
		d.ofKey = map[string]int{}
	}
	d.all++
	d.ofKey[key]++
	return sync.OnceFunc(func() { d.done(key) }), nil
}

func (d *diffs) done(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.ofKey[key]--; d.ofKey[key] == 0 {
		delete(d.ofKey, key)
	}
}

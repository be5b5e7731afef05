// Package storedanswer sends answers that are mostly stored: a response, an item, or a list of items.
package storedanswer

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/limits"
)

const (
	// minHeld is how much is held for a client that does not read, and how much is read at
	// a time of an object that is too large to be held.
	minHeld = 256 << 10
	// patience is how long stored bytes are held for a client that takes none of them.
	patience = 200 * time.Millisecond
)

// Bytes are stored bytes on their way to a client. Little of them is held for a client that does not read: the rest is
// read again from the store.
type Bytes struct {
	Size int64 // of the whole object
	Read func(ctx context.Context, from, n int64) ([]byte, error)
	Held limits.Held // charged for nothing at first

	mu   sync.Mutex
	rest []byte // that were read and not sent
}

// begin reads the first bytes.
func (b *Bytes) begin(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fill(ctx, 0)
}

// next returns the next slice, which begins at from.
func (b *Bytes) next(ctx context.Context, from int64) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 {
		if err := b.fill(ctx, from); err != nil {
			return nil, err
		}
	}
	// A copy, as a slice would keep all of the rest in memory.
	part := bytes.Clone(b.rest[:min(answer.Slice, len(b.rest))])
	b.rest = b.rest[len(part):]
	return part, nil
}

// fill reads all bytes that are left, unless that is too much for one request. The memory
// that SQLite needs for the object is charged while it reads.
func (b *Bytes) fill(ctx context.Context, from int64) (err error) {
	n := b.Size - from
	b.Held.Release()
	if b.Size+n > b.Held.Share() {
		n = min(n, minHeld)
	}
	if err := b.Held.Acquire(ctx, b.Size+n); err != nil {
		return err
	}
	b.rest, err = b.Read(ctx, from, n)
	b.Held.Shrink(int64(len(b.rest)) + answer.Slice)
	if err == nil && int64(len(b.rest)) != n {
		err = fmt.Errorf("cannot read what is stored: %d bytes at %d of %d are %d", n, from, b.Size, len(b.rest))
	}
	return err
}

// drop releases all bytes but the next ones.
func (b *Bytes) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = bytes.Clone(b.rest[:min(minHeld, len(b.rest))])
	b.Held.Shrink(int64(len(b.rest)) + answer.Slice)
}

// close releases all bytes. A later drop finds none.
func (b *Bytes) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = nil
	b.Held.Release()
}

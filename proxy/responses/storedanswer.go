package responses

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
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

// storedBytes are stored bytes on their way to a client. Little of them is held for a
// client that does not read: the rest is read again from the store.
type storedBytes struct {
	size int64 // of the whole object
	read func(ctx context.Context, from, n int64) ([]byte, error)

	mu   sync.Mutex
	held limits.Held
	rest []byte // that were read and not sent
}

// begin reads the first bytes.
func (b *storedBytes) begin(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fill(ctx, 0)
}

// next returns the next slice, which begins at from.
func (b *storedBytes) next(ctx context.Context, from int64) ([]byte, error) {
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
func (b *storedBytes) fill(ctx context.Context, from int64) (err error) {
	n := b.size - from
	b.held.Release()
	if b.size+n > b.held.Share() {
		n = min(n, minHeld)
	}
	if err := b.held.Acquire(ctx, b.size+n); err != nil {
		return err
	}
	b.rest, err = b.read(ctx, from, n)
	b.held.Shrink(int64(len(b.rest)) + answer.Slice)
	if err == nil && int64(len(b.rest)) != n {
		err = fmt.Errorf("cannot read what is stored: %d bytes at %d of %d are %d", n, from, b.size, len(b.rest))
	}
	return err
}

// drop releases all bytes but the next ones.
func (b *storedBytes) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = bytes.Clone(b.rest[:min(minHeld, len(b.rest))])
	b.held.Shrink(int64(len(b.rest)) + answer.Slice)
}

// piece is a piece of an answer: text, or stored bytes.
type piece struct {
	text   string
	stored *storedBytes // nil: it is the text
}

// send sends an answer that is mostly stored. Nothing is sent before the first stored
// bytes have been read.
func (e *Endpoint) send(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, pieces []piece) error {
	size, first := int64(0), (*storedBytes)(nil)
	for _, p := range pieces {
		size += int64(len(p.text))
		if p.stored != nil {
			size, first = size+p.stored.size, cmp.Or(first, p.stored)
			defer p.stored.close()
		}
	}
	if first != nil {
		if err := first.begin(r.Context()); err != nil {
			return cause.Of(r.Context(), err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	for _, p := range pieces {
		err := e.Answers.Write(w, []byte(p.text))
		if err == nil && p.stored != nil {
			err = cause.Of(r.Context(), e.sendStored(r.Context(), w, p.stored))
			p.stored.close()
		}
		if err != nil {
			return e.cutOff(x, err)
		}
	}
	return nil
}

// cutOff ends the connection of an answer that cannot be sent to its end.
func (e *Endpoint) cutOff(x *proxy.Exchange, err error) error {
	if proxy.ClientGone(err) {
		return err
	}
	e.Server.Logger.Error("request failed", "request_id", x.ID, "error", err)
	x.Outcome = "cut_off"
	panic(http.ErrAbortHandler)
}

func (e *Endpoint) sendStored(ctx context.Context, w http.ResponseWriter, b *storedBytes) error {
	for from := int64(0); from < b.size; {
		part, err := b.next(ctx, from)
		if err != nil {
			return err
		}
		slow := time.AfterFunc(patience, b.drop)
		err = e.Answers.Write(w, part)
		slow.Stop()
		if err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}

// close releases all bytes. A drop that comes late finds none.
func (b *storedBytes) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = nil
	b.held.Release()
}

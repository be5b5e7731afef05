package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// slice is how much is written to a client at a time. Each must be taken within
	// IdleTimeout.
	slice = 64 << 10
	// leastLent is how much is held for a client that does not read, and how much is read
	// at a time of what is too large to be held.
	leastLent = 256 << 10
	// lentFor is how long stored bytes are held for a client that takes none of them.
	lentFor = 200 * time.Millisecond
)

// lent is what was read of something stored for a client that has yet to take it. A
// client that does not read keeps little of it: the rest is read again for it.
type lent struct {
	size int64 // of all
	read func(ctx context.Context, from, n int64) ([]byte, error)

	mu   sync.Mutex
	held held
	rest []byte // from the last slice on
}

// begin reads the first of it.
func (l *lent) begin(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fill(ctx, 0)
}

// next is the slice that begins at from.
func (l *lent) next(ctx context.Context, from int64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) == 0 {
		if err := l.fill(ctx, from); err != nil {
			return nil, err
		}
	}
	// The client's part is a copy: a slice would keep all the rest in memory.
	part := bytes.Clone(l.rest[:min(slice, len(l.rest))])
	l.rest = l.rest[len(part):]
	return part, nil
}

// fill reads all that is left, unless that is too much for one request. What SQLite
// takes to read it counts as long as it reads.
func (l *lent) fill(ctx context.Context, from int64) (err error) {
	n := l.size - from
	l.held.keep(0)
	if l.size+n > l.held.memory.share() {
		n = min(n, leastLent)
	}
	if err := l.held.take(ctx, l.size+n); err != nil {
		return err
	}
	l.rest, err = l.read(ctx, from, n)
	l.held.keep(int64(len(l.rest)) + slice)
	if err == nil && int64(len(l.rest)) != n {
		err = fmt.Errorf("cannot read what is stored: %d bytes at %d of %d are %d", n, from, l.size, len(l.rest))
	}
	return err
}

// drop gives back all but the next of it.
func (l *lent) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = bytes.Clone(l.rest[:min(leastLent, len(l.rest))])
	l.held.keep(int64(len(l.rest)) + slice)
}

// piece is one of an answer: text, or what is stored.
type piece struct {
	text string
	lent *lent // nil: it is the text
}

// answerLent sends an answer that is mostly stored. Nothing of it has left as long as
// the first of it cannot be read.
func (s *Server) answerLent(w http.ResponseWriter, r *http.Request, pieces []piece) error {
	size, first := int64(0), (*lent)(nil)
	for _, p := range pieces {
		size += int64(len(p.text))
		if p.lent != nil {
			size, first = size+p.lent.size, cmp.Or(first, p.lent)
			defer p.lent.close()
		}
	}
	if first != nil {
		if err := first.begin(r.Context()); err != nil {
			return whyEnded(r.Context(), err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	for _, p := range pieces {
		err := s.writeAll(w, []byte(p.text))
		if err == nil && p.lent != nil {
			err = s.writeLent(r.Context(), w, p.lent)
			p.lent.close()
		}
		if err != nil {
			return s.cutOff(r, err)
		}
	}
	return nil
}

// cutOff ends the connection of an answer that cannot be sent to its end.
func (s *Server) cutOff(r *http.Request, err error) error {
	if errors.Is(err, errClientGone) {
		return err
	}
	s.Logger.Error("request failed", "request_id", exchangeOf(r).id, "error", err)
	exchangeOf(r).outcome = "cut_off"
	panic(http.ErrAbortHandler)
}

// writeLent sends what is stored to the client.
func (s *Server) writeLent(ctx context.Context, w http.ResponseWriter, l *lent) error {
	for from := int64(0); from < l.size; {
		part, err := l.next(ctx, from)
		if err != nil {
			return err
		}
		patience := time.AfterFunc(lentFor, l.drop)
		err = s.writeAll(w, part)
		patience.Stop()
		if err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}

// close gives everything back. A drop that comes late finds nothing.
func (l *lent) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = nil
	l.held.keep(0)
}

// writeAll writes b, and cuts off a client that does not take it.
func (s *Server) writeAll(w http.ResponseWriter, b []byte) error {
	control := http.NewResponseController(w)
	for len(b) > 0 {
		part := b[:min(slice, len(b))]
		// If this fails, the connection has ended already.
		_ = control.SetWriteDeadline(time.Now().Add(s.IdleTimeout))
		if _, err := w.Write(part); err != nil {
			return errClientGone
		}
		b = b[len(part):]
	}
	return nil
}

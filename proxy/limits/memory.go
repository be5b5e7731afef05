package limits

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy/openai"
)

// holdingPart is the part of the longest wait for which a request waits that holds memory
// already: one of so many.
const holdingPart = 10

// smallRequest bounds the bytes of a request that counts as small; with little memory
// the bound is lower.
const smallRequest = 64 << 10

// Everything is the argument of Shrink that releases nothing.
const Everything = math.MaxInt64

// Memory bounds the bytes that requests hold at the same time, and the bytes of each API
// key to half of that. Requests that wait for room get it in turn, so that small ones do
// not keep a large one waiting for ever; a sixteenth is for small requests alone, so that
// a large one does not keep those waiting either. It is safe for concurrent use.
type Memory struct {
	limit      int64
	wait       time.Duration // the longest wait for room
	all, small *semaphore.Weighted
	more       *semaphore.Weighted // an eighth, for requests that hold something already
	answers    *semaphore.Weighted // a sixteenth, for answers of turns in flight
	shares     sync.Map            // API key → *semaphore.Weighted; they are few bytes, and stay
	bytes      atomic.Int64
}

// NewMemory creates a budget of limit bytes.
func NewMemory(limit int64, wait time.Duration) *Memory {
	part := limit / 16
	return &Memory{
		limit: limit, wait: wait, all: semaphore.NewWeighted(limit - part), small: semaphore.NewWeighted(part),
		more: semaphore.NewWeighted(limit / 8), answers: semaphore.NewWeighted(part),
	}
}

// Bytes is how many bytes are held now.
func (m *Memory) Bytes() int64 { return m.bytes.Load() }

// share bounds the bytes that one API key holds, and one request.
func (m *Memory) share() int64 { return m.limit / 2 }

// Hold creates an empty charge for an API key. Requests without a key do not have a
// share: there are no other keys to be fair to.
func (m *Memory) Hold(key string) Held {
	share, ok := m.shares.Load(key)
	if !ok {
		size := m.share()
		if key == "" {
			size = math.MaxInt64
		}
		share, _ = m.shares.LoadOrStore(key, semaphore.NewWeighted(size))
	}
	return Held{memory: m, share: share.(*semaphore.Weighted), beside: m.more}
}

// holdAnswer is Hold for an answer. Requests that wait for a place on a worker may have
// all the memory that requests can get, and a place becomes free when an answer ends: so
// an answer waits for none of them.
func (m *Memory) holdAnswer(key string) Held {
	h := m.Hold(key)
	h.beside = m.answers
	return h
}

// Held is the memory that a part of a request, or a connection, is charged for. It
// belongs to one goroutine. The zero value is charged for nothing, and cannot be.
type Held struct {
	memory *Memory
	share  *semaphore.Weighted // of the API key
	beside *semaphore.Weighted // where it is extended when the rest is full
	bytes  int64
	wanted int64 // more than bytes where that would be more than a share
	small  int64 // of bytes, out of the part for small requests
	more   int64 // of bytes, out of the part in addition to the limit

	longest time.Duration // see WaitAtMost
}

// Another creates an empty charge for the same API key.
func (h *Held) Another() Held { return Held{memory: h.memory, share: h.share, beside: h.beside} }

// Share bounds the bytes of one request.
func (h *Held) Share() int64 { return h.memory.share() }

// fromSmall takes n bytes out of the part for small requests, if the request is small and
// there is room.
func (h *Held) fromSmall(n int64) bool {
	if h.bytes+n > min(smallRequest, h.memory.limit/256) || !h.memory.small.TryAcquire(n) {
		return false
	}
	h.small += n
	return true
}

// Acquire waits until there is room for n more bytes. Parts of a request that are
// within their own limits, and together more than a share, count as one share. The error
// is an *openai.Error, or the cause of ctx.
func (h *Held) Acquire(ctx context.Context, n int64) error {
	m := h.memory
	h.wanted += n
	n = min(n, m.share()-h.bytes)
	if h.TryAcquire(n) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, h.patience())
	defer cancel()
	// Acquire fails if the time is up, although there is room, and then the error would name the wrong limit.
	if !h.share.TryAcquire(n) && h.share.Acquire(within, n) != nil {
		return cause.Of(ctx, openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("the requests in flight with this API key hold as much memory as they may, %d bytes "+
				"(half of request_memory); send fewer at the same time", m.share()), time.Second))
	}
	if !h.fromSmall(n) && m.all.Acquire(within, n) != nil {
		h.share.Release(n)
		return cause.Of(ctx, m.full())
	}
	h.count(n)
	return nil
}

// WaitAtMost bounds the waits from now on, also by longest; 0: no longer.
func (h *Held) WaitAtMost(longest time.Duration) { h.longest = longest }

// patience is the longest wait. Requests that hold something, and answers, may wait for
// each other.
func (h *Held) patience() time.Duration {
	wait := h.memory.wait
	if h.bytes > 0 || h.beside == h.memory.answers {
		wait /= holdingPart
	}
	return min(wait, cmp.Or(h.longest, wait))
}

// extend is Acquire for a charge that is not empty: if it waited for memory that others hold, they could wait for the
// memory that it holds. A part in addition to the limit is for that, and counts for no key.
func (h *Held) extend(ctx context.Context, n int64) error {
	m := h.memory
	part := min(n, m.share()-h.bytes)
	if part > h.mostBeside() {
		return h.Acquire(ctx, n)
	}
	h.wanted += n
	if n = part; h.TryAcquire(n) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, h.patience())
	defer cancel()
	if h.beside.Acquire(within, n) != nil {
		return cause.Of(ctx, m.full())
	}
	h.more += n
	h.count(n)
	return nil
}

// mostBeside is the size of the part in addition to the limit.
func (h *Held) mostBeside() int64 {
	if h.beside == h.memory.answers {
		return h.memory.limit / 16
	}
	return h.memory.limit / 8
}

// full is the answer when the whole budget is held.
func (m *Memory) full() error {
	return openai.Unavailable("overloaded",
		fmt.Sprintf("all requests in flight hold as much memory as they may, %d bytes (request_memory); send the request again",
			m.limit), time.Second)
}

// TryAcquire is Acquire without waiting; false means that there is no room.
func (h *Held) TryAcquire(n int64) bool {
	if !h.share.TryAcquire(n) {
		return false
	}
	if !h.fromSmall(n) && !h.memory.all.TryAcquire(n) {
		h.share.Release(n)
		return false
	}
	h.count(n)
	return true
}

// Reach acquires the bytes that are missing to so many. The error is an *openai.Error, or
// the cause of ctx.
func (h *Held) Reach(ctx context.Context, bytes int64) error {
	if most := h.memory.limit / 8 * 7; bytes > most {
		return openai.TooLarge("",
			fmt.Sprintf("the request takes %d bytes of memory, and may take %d (7/8 of request_memory); "+
				"send less, or have the operator raise request_memory", bytes, most))
	}
	if bytes <= h.wanted {
		return nil
	}
	if h.bytes == 0 {
		return h.Acquire(ctx, bytes)
	}
	return h.extend(ctx, bytes-h.wanted)
}

// Add acquires so many bytes on top of those that are held.
func (h *Held) Add(ctx context.Context, bytes int64) error { return h.Reach(ctx, h.wanted+bytes) }

// Release releases all bytes.
func (h *Held) Release() { h.Shrink(0) }

// Shrink releases all bytes but n.
func (h *Held) Shrink(n int64) {
	h.wanted = min(h.wanted, n)
	rest := h.bytes - n
	if rest <= 0 {
		return
	}
	more := min(rest, h.more)
	h.beside.Release(more)
	h.more -= more
	h.count(-more)
	rest -= more
	small := max(0, h.small-n)
	h.memory.all.Release(rest - small)
	h.memory.small.Release(small)
	h.share.Release(rest)
	h.small -= small
	h.count(-rest)
}

func (h *Held) count(n int64) {
	h.bytes += n
	h.memory.bytes.Add(n)
}

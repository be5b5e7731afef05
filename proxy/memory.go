package proxy

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"codex-proxy/proxy/openai"
)

// smallRequest is the most bytes of a request that is called small here; where little
// is held, it is less.
const smallRequest = 64 << 10

// memory bounds the bytes of requests that are held at the same time, and those of
// each API key to half of that. Who waits for room gets it in turn, so that others do
// not keep a large request waiting for ever; a sixteenth is for small ones alone, so
// that a large one does not keep those waiting either.
type memory struct {
	limit      int64
	wait       time.Duration // the longest that one waits for room
	all, small *semaphore.Weighted
	more       *semaphore.Weighted // an eighth, for those that hold something already
	shares     sync.Map            // API key → *semaphore.Weighted; they are few bytes, and stay
	bytes      atomic.Int64
}

func newMemory(limit int64, wait time.Duration) *memory {
	forSmall := limit / 16
	return &memory{limit: limit, wait: wait, all: semaphore.NewWeighted(limit - forSmall), small: semaphore.NewWeighted(forSmall),
		more: semaphore.NewWeighted(limit / 8)}
}

// share is the most that one API key holds, and one request.
func (m *memory) share() int64 { return m.limit / 2 }

// hold begins to count for an API key; without keys there is nobody to be fair to.
func (m *memory) hold(key string) held {
	share, ok := m.shares.Load(key)
	if !ok {
		size := m.share()
		if key == "" {
			size = math.MaxInt64
		}
		share, _ = m.shares.LoadOrStore(key, semaphore.NewWeighted(size))
	}
	return held{memory: m, share: share.(*semaphore.Weighted)}
}

// another begins to count for the same API key.
func (h *held) another() held { return held{memory: h.memory, share: h.share} }

// held is what a request or a connection holds. It belongs to one goroutine.
type held struct {
	memory *memory
	share  *semaphore.Weighted // of the API key
	bytes  int64
	wanted int64 // more than bytes where that would be more than a share
	small  int64 // of them, out of what is for small ones
	more   int64 // and out of what is for those that hold something
}

// fromSmall takes n bytes out of what is for small requests, if this is one and there
// is room; who finds none is like all others.
func (h *held) fromSmall(n int64) bool {
	if h.bytes+n > min(smallRequest, h.memory.limit/256) || !h.memory.small.TryAcquire(n) {
		return false
	}
	h.small += n
	return true
}

// take waits until there is room for n more bytes. Parts of a request that are
// within their own limits, and together more than a share, count as one.
func (h *held) take(ctx context.Context, n int64) error {
	m := h.memory
	h.wanted += n
	n = min(n, m.share()-h.bytes)
	if h.try(n) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	if h.share.Acquire(within, n) != nil {
		return whyEnded(ctx, tooMany(openai.TypeRateLimit, "concurrency_exceeded",
			fmt.Sprintf("the requests in flight with this API key hold as much memory as they may, %d bytes (half of request_memory); send fewer at the same time", m.share()), time.Second))
	}
	if !h.fromSmall(n) && m.all.Acquire(within, n) != nil {
		h.share.Release(n)
		return whyEnded(ctx, m.full())
	}
	h.count(n)
	return nil
}

// extend is take for one that holds something: if it waited for what others hold, they
// could wait for what it holds. There is an eighth beside the limit for that, which
// counts for no key.
func (h *held) extend(ctx context.Context, n int64) error {
	m := h.memory
	part := min(n, m.share()-h.bytes)
	if part > m.limit/8 {
		return h.take(ctx, n)
	}
	h.wanted += n
	if n = part; h.try(n) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	if m.more.Acquire(within, n) != nil {
		return whyEnded(ctx, m.full())
	}
	h.more += n
	h.count(n)
	return nil
}

// full is the answer when all that may be held is.
func (m *memory) full() error {
	return openai.Unavailable("overloaded",
		fmt.Sprintf("all requests in flight hold as much memory as they may, %d bytes (request_memory); send the request again", m.limit), time.Second)
}

// try is take without waiting; false means that there is no room.
func (h *held) try(n int64) bool {
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

// keep gives back what is more than n.
func (h *held) keep(n int64) {
	h.wanted = min(h.wanted, n)
	rest := h.bytes - n
	if rest <= 0 {
		return
	}
	more := min(rest, h.more)
	h.memory.more.Release(more)
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

func (h *held) count(n int64) {
	h.bytes += n
	h.memory.bytes.Add(n)
}

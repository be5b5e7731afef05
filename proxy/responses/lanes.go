package responses

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy/openai"
)

const (
	// maxBackground bounds the background responses in flight; each takes some kilobytes while it waits.
	maxBackground = 4096
	// backgroundPart is the part of response_storage that their requests and objects may have: one of so many.
	backgroundPart = 4
	// retryBackground is when a client may send a request again for which there is no room.
	retryBackground = 10 * time.Second
)

// lane is where background responses wait that wait for the same workers: one of them at a time is in the queue for a
// place, so that requests whose clients wait do not wait behind all of them.
type lane struct{ key, model, accounts string }

func laneOf(key, model string, accounts []string) lane {
	return lane{key, model, strings.Join(accounts, " ")}
}

// lanes are the background responses of this process.
type lanes struct {
	bytes int64 // that all of them may have

	mu     sync.Mutex
	all    held
	byKey  map[string]held
	byLane map[lane]*turnstile
}

// held is what background responses take.
type held struct {
	count int
	bytes int64
}

func (h held) plus(count int, bytes int64) held { return held{h.count + count, h.bytes + bytes} }

func (h held) within(count int, bytes int64) bool { return h.count <= count && h.bytes <= bytes }

// turnstile lets one response of a lane through at a time, in order.
type turnstile struct {
	*semaphore.Weighted
	users int
}

func newLanes(bytes int64) *lanes {
	return &lanes{bytes: bytes, byKey: map[string]held{}, byLane: map[lane]*turnstile{}}
}

// admit counts a response of a key with so many bytes until leave is called. It returns an *openai.Error if there is no
// room for it: a key may have half of it.
func (l *lanes) admit(key string, bytes int64) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, own := l.all.plus(1, bytes), l.byKey[key].plus(1, bytes)
	switch {
	case bytes > l.bytes/2:
		return nil, openai.TooLarge("", fmt.Sprintf("a background request may have %d bytes (an eighth of response_storage)",
			l.bytes/2))
	case !own.within(maxBackground/2, l.bytes/2):
		return nil, openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded",
			"this API key has as many background responses in flight as it may; wait for the end of some",
			retryBackground)
	case !all.within(maxBackground, l.bytes):
		return nil, openai.Unavailable("overloaded",
			"there are as many background responses in flight as there may be; send the request again", retryBackground)
	}
	l.all, l.byKey[key] = all, own
	return func() { l.leave(key, bytes) }, nil
}

func (l *lanes) leave(key string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = l.all.plus(-1, -bytes)
	if l.byKey[key] = l.byKey[key].plus(-1, -bytes); l.byKey[key].count == 0 {
		delete(l.byKey, key)
	}
}

// count returns how many responses are in flight.
func (l *lanes) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.count
}

// enter waits for the turn of a response in its lane. through, which may be called several times, lets the next one
// through.
func (l *lanes) enter(ctx context.Context, of lane) (through func(), err error) {
	t := l.turnstile(of)
	if err := t.Acquire(ctx, 1); err != nil {
		l.forget(of)
		return nil, cause.Of(ctx, err)
	}
	return sync.OnceFunc(func() {
		t.Release(1)
		l.forget(of)
	}), nil
}

func (l *lanes) turnstile(of lane) *turnstile {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byLane[of]
	if t == nil {
		t = &turnstile{Weighted: semaphore.NewWeighted(1)}
		l.byLane[of] = t
	}
	t.users++
	return t
}

// forget removes a lane without users.
func (l *lanes) forget(of lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.byLane[of]; t.users == 1 {
		delete(l.byLane, of)
	} else {
		t.users--
	}
}

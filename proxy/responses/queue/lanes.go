package queue

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"codex-proxy/proxy/openai"
)

const (
	// maxBackground bounds the background responses in flight; each takes some kilobytes while it waits.
	maxBackground = 4096
	// BackgroundPart is the part of response_storage that their requests and objects may have: one of so many.
	BackgroundPart = 4
	// retryBackground is when a client may send a request again for which there is no room.
	retryBackground = 10 * time.Second
)

// Lane identifies background responses that wait for the same workers: one of them at a time is in the queue for a
// place, so that requests of waiting clients do not wait behind all of them.
type Lane struct{ key, model, accounts string }

// LaneOf is the lane of the responses of a key with that model and these accounts.
func LaneOf(key, model string, accounts []string) Lane {
	return Lane{key, model, strings.Join(accounts, " ")}
}

// Lanes are the background responses of this process.
type Lanes struct {
	bytes int64 // that all of them may have

	mu     sync.Mutex
	all    held
	byKey  map[string]held
	byLane map[Lane][]*Place
}

// held counts background responses and their bytes.
type held struct {
	count int
	bytes int64
}

func (h held) plus(count int, bytes int64) held { return held{h.count + count, h.bytes + bytes} }

func (h held) within(count int, bytes int64) bool { return h.count <= count && h.bytes <= bytes }

// New returns empty lanes; all responses in them may have so many bytes.
func New(bytes int64) *Lanes {
	return &Lanes{bytes: bytes, byKey: map[string]held{}, byLane: map[Lane][]*Place{}}
}

// Admit counts a response of a key with so many bytes until leave is called. It returns an *openai.Error if there is no
// room for it: a key may have half of it.
func (l *Lanes) Admit(key string, bytes int64) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, own := l.all.plus(1, bytes), l.byKey[key].plus(1, bytes)
	switch {
	case bytes > l.bytes/2:
		return nil, openai.TooLarge("",
			fmt.Sprintf("a background request may have %d bytes (an eighth of response_storage)",
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

func (l *Lanes) leave(key string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = l.all.plus(-1, -bytes)
	if l.byKey[key] = l.byKey[key].plus(-1, -bytes); l.byKey[key].count == 0 {
		delete(l.byKey, key)
	}
}

// Count returns how many responses are in flight.
func (l *Lanes) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.count
}

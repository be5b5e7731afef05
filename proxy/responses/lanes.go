package responses

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

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

// lane identifies background responses that wait for the same workers: one of them at a time is in the queue for a
// place, so that requests of waiting clients do not wait behind all of them.
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
	byLane map[lane][]*place
}

// held counts background responses and their bytes.
type held struct {
	count int
	bytes int64
}

func (h held) plus(count int, bytes int64) held { return held{h.count + count, h.bytes + bytes} }

func (h held) within(count int, bytes int64) bool { return h.count <= count && h.bytes <= bytes }

func newLanes(bytes int64) *lanes {
	return &lanes{bytes: bytes, byKey: map[string]held{}, byLane: map[lane][]*place{}}
}

// admit counts a response of a key with so many bytes until leave is called. It returns an *openai.Error if there is no
// room for it: a key may have half of it.
func (l *lanes) admit(key string, bytes int64) (leave func(), err error) {
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

// place is the place of a response in its lane.
type place struct {
	*lanes
	of   lane
	turn chan struct{} // closed when it is the first
}

// join takes the last place in a lane, until leave.
func (l *lanes) join(of lane) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &place{lanes: l, of: of, turn: make(chan struct{})}
	if l.byLane[of] = append(l.byLane[of], p); len(l.byLane[of]) == 1 {
		close(p.turn)
	}
	return p
}

// wait waits until the response is the first in its lane.
func (p *place) wait(ctx context.Context) error {
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the place up, and lets the next one through. It may be called several times.
func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.byLane[p.of]
	at := slices.Index(all, p)
	if at < 0 {
		return
	}
	if all = slices.Delete(all, at, at+1); len(all) == 0 {
		delete(p.byLane, p.of)
		return
	}
	p.byLane[p.of] = all
	if at == 0 {
		close(all[0].turn)
	}
}

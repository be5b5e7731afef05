package conversation

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// spacing is the pause between two upgrades: an endpoint may refuse many at a time.
	spacing = 100 * time.Millisecond
	// settled is how long a WebSocket must be unused to give way to another conversation.
	settled = time.Minute
	// The pause after a refusal doubles from shortRest to longRest. An endpoint without WebSockets is asked again after
	// longRest.
	shortRest, longRest = time.Minute, time.Hour
)

// beta is the header by which codex asks for WebSockets.
const beta = "responses_websockets=2026-02-06"

// opening is a WebSocket to make.
type opening struct {
	of      digest
	address string
	header  http.Header
}

// ofOne are the headers of a request that its WebSocket does not have.
var ofOne = []string{"Accept", "Content-Type", "Content-Length", "X-Codex-Turn-State", "Traceparent", "Tracestate"}

// want has a WebSocket made for the conversation of a request, if there is a place for one.
func (c *Conversations) want(r *http.Request, q *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sockets[q.of]; s != nil {
		if s.busy.Load() || s.has == nil && !s.over() {
			return
		}
		c.drop(s) // the conversation has become another one
	}
	now := time.Now()
	if c.asked[q.of] || now.Before(c.rest) || !c.room(now) {
		return
	}
	o := opening{of: q.of, address: r.URL.String(), header: r.Header.Clone()}
	for _, name := range ofOne {
		o.header.Del(name)
	}
	o.header.Set("OpenAI-Beta", beta)
	select {
	case c.queue <- o:
		c.asked[q.of] = true
		if c.credit--; c.credit <= 0 {
			c.credit, c.rest = 1, now.Add(inAWhile)
		}
	default:
	}
}

// room reports whether another WebSocket may be made. The one that was unused for the longest time gives way.
func (c *Conversations) room(now time.Time) bool {
	if len(c.sockets)+len(c.asked) < c.line.Sockets() {
		return true
	}
	var oldest *socket
	for _, s := range c.sockets {
		if !s.busy.Load() && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if oldest == nil || now.Sub(oldest.used) < settled {
		return false
	}
	c.drop(oldest)
	return true
}

// Run makes WebSockets, one after the other, and keeps them until ctx ends or the endpoint closes them.
func (c *Conversations) Run(ctx context.Context) {
	var readers sync.WaitGroup
	defer readers.Wait()
	for {
		var o opening
		select {
		case <-ctx.Done():
			return
		case o = <-c.queue:
		}
		if s, life := c.open(ctx, o); s != nil {
			readers.Go(func() {
				s.read(life)
				c.ended(s)
			})
			readers.Go(func() { s.watch(life) })
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(spacing):
		}
	}
}

// open makes a WebSocket, which lives as long as life.
func (c *Conversations) open(ctx context.Context, o opening) (s *socket, life context.Context) {
	conn, res, err := c.line.Upgrade(ctx, o.address, o.header) //nolint:bodyclose // the WebSocket has it
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, o.of)
	if err != nil {
		if ctx.Err() == nil {
			c.refuse(res, err)
		}
		return nil, nil
	}
	life, end := context.WithCancelCause(ctx)
	s = &socket{of: o.of, conn: conn, header: ofUpgrade(res.Header), events: make(chan received, ahead), end: end,
		room: c.messages, made: time.Now(), used: time.Now()}
	if old := c.sockets[o.of]; old != nil {
		c.drop(old)
	}
	c.sockets[o.of] = s
	return s, life
}

// refuse rests after an upgrade that failed: for as long as the endpoint asks, or longer with each one.
func (c *Conversations) refuse(res *http.Response, err error) {
	pause := shortRest << min(c.refused, 10)
	c.refused++
	status := 0
	if res != nil {
		status = res.StatusCode
		switch {
		case passes(status):
			if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
				pause = max(pause, time.Duration(min(seconds, int(longRest.Seconds())))*time.Second)
			}
		default:
			pause = longRest // it has no WebSockets
		}
	}
	pause = min(pause, longRest)
	c.pause(pause, "status", status, "error", err)
}

// passes reports whether a refusal is due to the login, the load, or a fault: the endpoint may have WebSockets.
func passes(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// pause makes no WebSocket for so long, nor those that wait to be made. The caller holds the lock.
func (c *Conversations) pause(d time.Duration, why ...any) {
	c.rest = time.Now().Add(d)
	for len(c.queue) > 0 { // the lock keeps others from adding some
		select {
		case o := <-c.queue:
			delete(c.asked, o.of)
			c.credit = min(mostCredit, c.credit+1)
		default:
		}
	}
	c.logger.Info("the model endpoint takes no WebSockets", append(why, "pause", d.String())...)
}

// ofUpgrade are the headers of the answer to an upgrade that codex reads in each answer. The state of a turn and the
// quota are of that moment alone.
func ofUpgrade(h http.Header) http.Header {
	left := http.Header{}
	for name, values := range h {
		ours := strings.HasPrefix(name, "X-") || strings.HasPrefix(name, "Openai-")
		if ours && !strings.HasPrefix(name, "X-Codex-") {
			left[name] = values
		}
	}
	return left
}

package server

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"codex-proxy/console/pipe"
	"codex-proxy/internal/resident"
)

// settled is how long a page is open before the memory that its loading has used is given back.
const settled = 2 * time.Second

// places are the open streams of one kind, the oldest first.
type places struct {
	most   int
	person func(session string) string // empty: there is one person

	mu   sync.Mutex
	open []*place
}

type place struct {
	session string
	end     func()
}

// take has a place for a stream of a session. It ends the oldest one of that session or its person that has as many as
// it may, as of a phone that has changed its network.
func (p *places) take(session string, end func()) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if person := p.person(session); person != "" {
		p.room(maxOfSession, func(o *place) bool { return o.session == session })
		p.room(maxOfKey, func(o *place) bool { return p.person(o.session) == person })
	}
	if len(p.open) >= p.most {
		return nil, false
	}
	own := &place{session, end}
	p.open = append(p.open, own)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open = slices.DeleteFunc(p.open, func(o *place) bool { return o == own })
	}, true
}

// room makes room for one more of those that match.
func (p *places) room(most int, match func(*place) bool) {
	oldest, n := -1, 0
	for i, o := range slices.Backward(p.open) {
		if match(o) {
			oldest, n = i, n+1
		}
	}
	if n >= most {
		p.open[oldest].end()
		p.open = slices.Delete(p.open, oldest, oldest+1)
	}
}

// lines writes the lines of a stream.
type lines struct {
	w        http.ResponseWriter
	patience time.Duration

	mu   sync.Mutex // guards the writes, and sent
	sent bool
}

func (l *lines) write(line json.RawMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sent {
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.sent = true
	}
	to := http.NewResponseController(l.w)
	if err := to.SetWriteDeadline(time.Now().Add(l.patience)); err != nil {
		return err
	}
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return to.Flush()
}

// begun reports whether there was a line.
func (l *lines) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// beat writes an empty line now and then, until ctx ends or one fails, which ends the stream.
func (l *lines) beat(ctx context.Context, end func()) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if l.begun() && l.write(nil) != nil {
				end()
			}
		case <-ctx.Done():
			return
		}
	}
}

// stream carries out an order, and sends its values as they are there.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, order pipe.Order, places *places) {
	ctx, end := context.WithCancel(r.Context())
	leave, ok := places.take(order.As, end)
	if !ok {
		end()
		refuse(w, http.StatusServiceUnavailable, "too many pages are open; close one")
		return
	}
	defer leave()
	s.opened.Do(func() { time.AfterFunc(settled, func() { _ = resident.Trim() }) })
	to := &lines{w: w, patience: s.patience}
	var beating sync.WaitGroup
	beating.Go(func() { to.beat(ctx, end) })
	err := s.settings.Orders.Stream(ctx, order, to.write)
	end()
	beating.Wait() // nobody may write after the handler
	if err != nil && !to.begun() && r.Context().Err() == nil {
		s.beginAnswer(w)
		refuse(w, http.StatusBadGateway, err.Error())
	}
}

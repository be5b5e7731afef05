package proxy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/workers"
)

// choices runs a turn for each choice of a request, all at the same time. One
// that fails ends the others: an answer has all of them, or none. answer is
// called anew when a turn runs again, for several choices from several goroutines.
// end is called when all have succeeded.
func (s *Server) choices(w http.ResponseWriter, r *http.Request, req *openai.ChatRequest, answer func(c *choice, turn *appserver.Turn) error, end func() error) error {
	images, err := decoding(req.Images(), req.N)
	if err != nil {
		return err
	}
	x, request, ask := exchangeOf(r), plan(req), workers.Ask{Model: req.Model, Decoding: images}
	settled := func() error {
		s.settle(x)
		return end()
	}
	req.Messages = nil // they are in the items now, and would be there as long as the answer takes
	x.held.keep(request.Footprint())
	if req.N > 1 {
		x.lasts = math.MaxInt64
	}
	if req.N == 1 {
		c := &choice{ctx: r.Context(), x: x}
		return s.runTurn(w, r, x, ask, request, func(turn *appserver.Turn) error { return answer(c, turn) }, settled)
	}
	g, ctx := errgroup.WithContext(r.Context())
	if request.Footprint() > largeStart {
		x.starts = make(chan struct{}, 1)
	}
	all := make([]*choice, req.N)
	for i := range all {
		c := &choice{index: i, ctx: ctx, x: x.fork()}
		all[i] = c
		g.Go(func() (err error) {
			defer c.rescue(&err)
			return s.runTurn(nowhere{}, r.WithContext(ctx), c.x, ask, request, func(turn *appserver.Turn) error { return answer(c, turn) }, nil)
		})
	}
	err = g.Wait()
	for _, c := range all { // before a panic: what they hold is given back with the request
		x.join(c.x)
	}
	for _, c := range all {
		if c.panicked != nil {
			panic(c.panicked)
		}
	}
	if x.attempts > 0 {
		w.Header().Set("X-Codex-Attempts", strconv.Itoa(x.attempts))
	}
	if err != nil {
		return err
	}
	return settled()
}

// choice is one of the answers to a request. It belongs to the goroutine of its
// turn.
type choice struct {
	index    int
	ctx      context.Context
	x        *exchange // the request's own if there is no other choice
	panicked any
}

// errPanicked ends the fellows of a choice that panicked.
var errPanicked = errors.New("a choice panicked")

// rescue carries a panic to the goroutine of the request, where it ends that and
// not the program.
func (c *choice) rescue(err *error) {
	if c.panicked = recover(); c.panicked != nil {
		*err = errPanicked
	}
}

// fork is an exchange for one turn of several.
func (x *exchange) fork() *exchange {
	return &exchange{id: x.id, began: x.began, route: x.route, key: x.key, limits: x.limits, model: x.model, stream: x.stream, span: x.span,
		made: x.made.another(), starts: x.starts}
}

// largeStart is a request whose choices begin one after another: each sends all of it.
const largeStart = 1 << 20

// awaitStart waits until no other choice begins. started lets the next one.
func (x *exchange) awaitStart(ctx context.Context) (started func(), err error) {
	if x.starts == nil {
		return func() {}, nil
	}
	select {
	case x.starts <- struct{}{}:
		return func() { <-x.starts }, nil
	case <-ctx.Done():
		return nil, whyEnded(ctx, context.Cause(ctx))
	}
}

// join adds what a turn cost.
func (x *exchange) join(part *exchange) {
	x.attempts += part.attempts
	x.queued = max(x.queued, part.queued)
	x.usage = x.usage.Plus(part.usage)
	x.parts = append(x.parts, part)
	if x.thread == "" {
		x.worker, x.thread = part.worker, part.thread
	}
}

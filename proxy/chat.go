package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/workers"
)

const (
	// startTimeout bounds the three calls that start a turn.
	startTimeout = 30 * time.Second
	// closeTimeout bounds the goodbye to a turn.
	closeTimeout = 2 * time.Second
)

// chat serves POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	req, err := openai.DecodeChat(body)
	if err != nil {
		return err
	}
	x := exchangeOf(r)
	x.model, x.stream = req.Model, req.Stream
	if req.Model, req.Reasoning.Effort, err = s.limit(x, req.Model, req.Reasoning.Effort, req.N); err != nil {
		return err
	}
	if len(req.Ignored) > 0 {
		w.Header().Set("X-Codex-Ignored-Params", strings.Join(req.Ignored, ", "))
	}
	ctx, cancel := s.bounded(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	if err := s.inline(ctx, x, req.Images()); err != nil {
		return err
	}
	answer := openai.Answer{ID: newID("chatcmpl-"), Created: time.Now().Unix(), Model: x.model, Legacy: req.Legacy, Usage: req.Stream && req.IncludeUsage}
	if req.Stream {
		return s.streamChat(w, r, req, answer)
	}
	return s.wholeChat(w, r, req, answer)
}

// bounded applies request_timeout, if there is one, to a request that has
// arrived: its waiting, its attempts and its answer together.
func (s *Server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.RequestTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, s.RequestTimeout,
		openai.Timeout("request_timeout", fmt.Sprintf("the answer was not finished within %s", s.RequestTimeout)))
}

// startTurn continues a kept thread, or starts one.
func (s *Server) startTurn(ctx context.Context, lease *workers.Lease, x *exchange, request appserver.TurnRequest, c *continuation) (*appserver.Turn, error) {
	ctx, cancel := s.startContext(ctx)
	defer cancel()
	if trace, ok := x.turn.Context(); ok {
		ctx = appserver.WithTrace(ctx, appserver.Trace(trace))
	}
	fit := x.fit
	if fit == nil {
		fit = func(_ string, items []appserver.Item) []appserver.Item { return items }
	}
	if known, thread := c.take(lease.Conn); thread != nil {
		rest := request
		rest.Items, rest.Ended = fit(lease.Worker, request.Items[known:]), lease.Hold()
		turn, err := thread.StartTurn(ctx, rest)
		if !refused(err) {
			s.metrics.reuse.WithLabelValues("hit").Inc()
			return turn, err
		}
	}
	s.metrics.reuse.WithLabelValues("miss").Inc()
	request.Items, request.Ended = fit(lease.Worker, request.Items), lease.Hold()
	return lease.Conn.StartTurn(ctx, request)
}

// refused tells that codex does not take a turn on that thread, and may take it
// on another.
func refused(err error) bool {
	var rpc *appserver.RPCError
	return errors.As(err, &rpc) && lossReason(err) == ""
}

func (s *Server) startContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.startTimeout, errStartTimeout)
}

// closeTurn interrupts the turn if it still runs. It works after the client
// has gone, which is when it matters.
func closeTurn(ctx context.Context, turn *appserver.Turn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	// What fails here is the connection, and the worker's own loop reports that.
	_ = turn.Close(ctx)
}

// whyEnded prefers the reason for which the request's context ended over the
// error that this led to.
func whyEnded(ctx context.Context, err error) error {
	var timeout *openai.Error
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), ErrDeadline):
		return ErrDeadline
	case errors.As(context.Cause(ctx), &timeout):
		return timeout
	default:
		return errClientGone
	}
}

// wholeChat answers when all choices are complete.
func (s *Server) wholeChat(w http.ResponseWriter, r *http.Request, req *openai.ChatRequest, answer openai.Answer) error {
	said := make([]openai.ChoiceContent, req.N)
	return s.choices(w, r, req, func(c *choice, turn *appserver.Turn) error {
		whole := &wholeChoice{}
		err := s.hear(c, turn, req, whole, nil, nil)
		said[c.index] = whole.said
		return err
	}, func() error { return s.writeJSON(w, answer.Completion(said, exchangeOf(r).usage)) })
}

// writeJSON sends a whole answer and flushes it, so that nothing that follows
// in the handler delays the client.
func (s *Server) writeJSON(w http.ResponseWriter, v any) error {
	data, err := openai.Encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if err := s.writeAll(w, data); err != nil {
		return err
	}
	if http.NewResponseController(w).Flush() != nil {
		return errClientGone
	}
	return nil
}

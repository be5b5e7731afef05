package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
)

// listener receives what a turn produces. An error of any function ends the
// following with that error.
type listener struct {
	text      func(itemID, delta string) error
	reasoning func(itemID string, part int, delta string) error // nil: nobody wants it
	item      func(appserver.ResponseItem) error                // each finished item of the model's output; may be nil
	idle      func() error                                      // nothing more has come yet; may be nil
	silence   func() error                                      // the client has heard nothing for the keepalive interval; may be nil

	heard time.Time // when the client last heard something
}

// follow reads the turn to its end and returns the finish reason. What it costs
// and whether a tool was called goes into x.
func (s *Server) follow(ctx context.Context, turn *appserver.Turn, x *exchange, l listener) (string, error) {
	l.heard = time.Now()
	for {
		event, err := s.next(ctx, turn, &l, x.suspect)
		if err != nil {
			return "", whyEnded(ctx, err)
		}
		if end, ok := event.(appserver.TurnCompleted); ok {
			return finishReason(end)
		}
		if err := l.hear(ctx, event, x); err != nil {
			return "", err
		}
	}
}

func (l *listener) hear(ctx context.Context, event appserver.Event, x *exchange) error {
	switch e := event.(type) {
	case appserver.TextDelta:
		x.turn.Once(firstToken)
		l.heard = time.Now()
		if err := x.grow(ctx, len(e.Text)); err != nil {
			return err
		}
		return l.text(e.ItemID, e.Text)
	case appserver.ReasoningDelta:
		x.turn.Once(firstToken)
		if l.reasoning == nil {
			return nil
		}
		l.heard = time.Now()
		if err := x.grow(ctx, len(e.Text)); err != nil {
			return err
		}
		return l.reasoning(e.ItemID, e.Part, e.Text)
	case appserver.ResponseItem:
		x.turn.Once(firstToken)
		if err := x.grow(ctx, len(e.Item)); err != nil {
			return err
		}
		x.produced(e)
		if l.item != nil {
			return l.item(e)
		}
	case appserver.UsageUpdated:
		x.usage = usageOf(e.Usage)
	}
	return nil
}

// next waits for one event. Silence of the worker, not duration, is what times
// out, and what makes no event is no silence. The client's silence is another one:
// while a model thinks there are events of which the client hears nothing.
func (s *Server) next(ctx context.Context, turn *appserver.Turn, l *listener, suspect func()) (appserver.Event, error) {
	if l.idle != nil && !turn.Ready() {
		if err := l.idle(); err != nil {
			return nil, err
		}
	}
	until := time.Now().Add(s.IdleTimeout)
	for {
		wait := time.Until(until)
		if l.silence != nil {
			wait = min(wait, time.Until(l.heard.Add(s.Keepalive)))
		}
		event, err := turn.NextWithin(ctx, wait)
		if !errors.Is(err, appserver.ErrSilent) {
			return event, err
		}
		if later := turn.LastReceived().Add(s.IdleTimeout); later.After(until) {
			until = later
		}
		now := time.Now()
		if !now.Before(until) {
			suspect()
			return nil, openai.Timeout("idle_timeout", fmt.Sprintf("the worker sent nothing for %s", s.IdleTimeout))
		}
		if l.silence == nil || now.Before(l.heard.Add(s.Keepalive)) {
			continue
		}
		if err := l.silence(); err != nil {
			return nil, err
		}
		l.heard = now
	}
}

// finishReason is OpenAI's word for how the turn ended. A response that the
// model endpoint cut short is a failed turn to codex and an answer to a client.
func finishReason(e appserver.TurnCompleted) (string, error) {
	switch e.Status {
	case appserver.TurnCompletedOK:
		return openai.FinishStop, nil
	case appserver.TurnCalledTools:
		return openai.FinishToolCalls, nil
	case appserver.TurnFailed:
		return incompleteReason(e.Err)
	default:
		return "", errInterrupted
	}
}

func incompleteReason(err *appserver.TurnError) (string, error) {
	reason, incomplete := err.Incomplete()
	switch {
	case !incomplete:
		return "", err
	case reason == "content_filter":
		return openai.FinishContentFilter, nil
	default:
		return openai.FinishLength, nil
	}
}

func usageOf(u appserver.Usage) *openai.Usage {
	return &openai.Usage{
		PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.TotalTokens,
		PromptTokensDetails:     openai.PromptDetails{CachedTokens: u.CachedInputTokens},
		CompletionTokensDetails: openai.CompletionDetails{ReasoningTokens: u.ReasoningOutputTokens},
	}
}

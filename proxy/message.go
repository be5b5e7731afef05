package proxy

import (
	"cmp"
	"net/http"
	"time"

	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
)

// BeginMessage begins the exchange of a request on a WebSocket. It is a request of its own in log, metrics and limits.
// r and upgrade are the request and the exchange of the upgrade; body is the memory of the message, which the new
// exchange takes over. The error is an *openai.Error: the key may have been revoked since the upgrade. end must be
// called when the message is answered, also after an error.
func (s *Server) BeginMessage(r *http.Request, upgrade *Exchange, body limits.Held) (
	x *Exchange, end func(), err error,
) {
	x = &Exchange{Key: upgrade.Key, Record: Record{
		ID: NewID("req_"), Began: time.Now(), Route: upgrade.Route, Outcome: "ok", Stream: true,
		Span: s.Traces.Within(upgrade.Span),
	}}
	answered := s.Connections.BeginMessage(x.Began)
	key, err := access(s.Keys, Route{Access: Keyed}, r)
	if err == nil {
		key.Name = cmp.Or(key.Name, upgrade.Key.Name) // the API may have been opened since
		x.Key = key
	}
	x.Grant = s.Limiter.Grant(x.Key, s.Memory)
	x.Grant.Body = body
	if err == nil {
		err = s.choose(r, x) // the header of the upgrade holds for every message
	}
	posted := r.WithContext(r.Context())
	posted.Method = http.MethodPost // the method of the same request over HTTP
	return x, func() {
		s.end(posted, x)
		answered()
	}, err
}

// Error is the error that a client receives for err.
func (s *Server) Error(x *Exchange, err error) *openai.Error { return s.envelope.answer(x, err) }

// Fail records err as the outcome of a message, and returns the error to send; nil if the
// client has gone or its answer has begun.
func (s *Server) Fail(x *Exchange, err error) *openai.Error {
	e := s.envelope.outcome(x, err)
	switch {
	case x.Status != 0:
		return nil
	case e == nil:
		x.Status = statusClientGone
	default:
		x.Status = e.Status
	}
	return e
}

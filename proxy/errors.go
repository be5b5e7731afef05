package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/workers"
)

// errClientGone ends a request whose client has closed its connection: there
// is nobody to answer.
var errClientGone = errors.New("the client closed the connection")

// statusClientGone is nginx's number for it, for logs and metrics.
const statusClientGone = 499

// fail writes err in the envelope, unless an answer has begun or the client
// has gone.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	if errors.Is(err, errClientGone) {
		x.outcome = "client_gone"
		if x.status == 0 { // else net/http would say 200 to a client that only half closed
			w.Header().Set("Connection", "close")
			w.WriteHeader(statusClientGone)
		}
		return
	}
	e := s.clientError(r, err)
	x.outcome = e.Code
	if x.status != 0 {
		return
	}
	for name, values := range e.Header {
		w.Header()[name] = values
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Round(time.Second).Seconds())))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	// The status line is out: an error here can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(e)
}

// clientError is the error that a client sees for err. What is nobody's
// business but ours is logged and becomes a plain 500.
func (s *Server) clientError(r *http.Request, err error) *openai.Error {
	var known *openai.Error
	var rpc *appserver.RPCError
	var turn *appserver.TurnError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, workers.ErrDraining), errors.Is(err, workers.ErrNotReady), errors.Is(err, workers.ErrBusy):
		return s.unavailable(err)
	case errors.Is(err, ErrDeadline):
		return openai.Unavailable("draining", "the service stopped before this answer was finished; send the request again", time.Second)
	case errors.As(err, &turn):
		return turnError(turn)
	case errors.As(err, &rpc):
		return rpcError(rpc)
	case errors.Is(err, appserver.ErrConnectionLost):
		return openai.Unavailable("worker_exited", "the worker exited during the turn; send the request again", s.retryAfter())
	case errors.Is(err, appserver.ErrSlowConsumer):
		return openai.Timeout("slow_client", "the answer was not read fast enough and was given up")
	case errors.Is(err, appserver.ErrTooLarge):
		return &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "request_too_large", Message: "the messages are larger than the worker accepts"}
	case errors.Is(err, context.DeadlineExceeded):
		return openai.Timeout("request_timeout", "the worker did not take the turn in time")
	}
	s.Logger.Error("request failed", "request_id", exchangeOf(r).id, "error", err)
	return internalError(r)
}

func internalError(r *http.Request) *openai.Error {
	return &openai.Error{
		Status: http.StatusInternalServerError, Type: openai.TypeServer, Code: "internal_error",
		Message: "internal error; the journal has the reason under request_id=" + exchangeOf(r).id,
	}
}

// unavailable explains why no worker could be picked.
func (s *Server) unavailable(err error) *openai.Error {
	switch {
	case errors.Is(err, workers.ErrDraining):
		return openai.Unavailable("draining", "the service is stopping; send the request again in a moment", time.Second)
	case errors.Is(err, workers.ErrBusy):
		return openai.Unavailable("overloaded", "every worker is at its in-flight limit; send the request again", time.Second)
	}
	r := s.Report()
	if r.Health.Readiness.Reason == probes.Draining {
		return openai.Unavailable("draining", "every worker that could take it is drained; send the request again later", probes.RetryAfter(r, time.Now()))
	}
	message := fmt.Sprintf("no worker is ready: %s", r.Health.Readiness.Reason)
	return openai.Unavailable("worker_not_ready", message+"; GET /readyz tells more", probes.RetryAfter(r, time.Now()))
}

func (s *Server) retryAfter() time.Duration { return probes.RetryAfter(s.Report(), time.Now()) }

// rpcError is a request that the worker refused. Its JSON-RPC code never
// leaves the proxy.
func rpcError(e *appserver.RPCError) *openai.Error {
	switch {
	case e.Code == appserver.CodeOverloaded:
		return openai.Unavailable("overloaded", "the worker is overloaded; send the request again", time.Second)
	case e.ShuttingDown():
		return openai.Unavailable("draining", "the worker is stopping; send the request again", time.Second)
	case e.Code == appserver.CodeInternalError:
		return openai.Unavailable("worker_error", "the worker failed: "+bounded(e.Message), time.Second)
	default:
		return openai.Invalid("worker_rejected", "", "the worker refused the request: "+bounded(e.Message))
	}
}

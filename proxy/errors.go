package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/probes"
	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/workers"
)

// errClientGone ends a request whose client has closed its connection: there
// is nobody to answer.
var errClientGone = errors.New("the client closed the connection")

// statusClientGone is nginx's number for it, for logs and metrics.
const statusClientGone = 499

// longWait is a wait that a client is told not to make by itself. OpenAI's
// libraries sleep, twice and without a word, for a Retry-After of up to a
// minute, unless X-Should-Retry says no.
const longWait = time.Minute

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
	if e.RetryAfter >= longWait {
		w.Header().Set("X-Should-Retry", "false")
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
	case errors.Is(err, workers.ErrDraining), errors.Is(err, workers.ErrNotReady), errors.Is(err, workers.ErrBusy), errors.Is(err, workers.ErrQueueFull):
		return s.unavailable(err)
	case errors.Is(err, ErrDeadline):
		return openai.Unavailable("draining", "the service stopped before this answer was finished; send the request again", time.Second)
	case errors.As(err, &turn):
		return turnError(turn, exchangeOf(r).field("messages", "input"))
	case errors.As(err, &rpc):
		return rpcError(rpc)
	case errors.Is(err, appserver.ErrConnectionLost):
		return openai.Unavailable("worker_exited", "the worker exited during the turn; send the request again", s.retryAfter())
	case errors.Is(err, appserver.ErrSlowConsumer):
		return openai.Timeout("slow_client", "the answer was not read fast enough and was given up")
	case errors.Is(err, appserver.ErrTooLarge):
		return tooLarge("", "the messages are larger than the worker accepts")
	case errors.Is(err, stored.ErrUnavailable):
		return openai.Unavailable("responses_unavailable", "stored responses cannot be used just now; "+
			"send the whole conversation as input, or the request again later", 10*time.Second)
	case errors.Is(err, errInterrupted):
		return openai.Unavailable("turn_interrupted", "the worker interrupted the turn; send the request again", time.Second)
	case errors.Is(err, errImagesTimeout):
		return imagesTimeout(exchangeOf(r).field("messages", "input"))
	case errors.Is(err, errStartTimeout):
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

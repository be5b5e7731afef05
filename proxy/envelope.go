package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"codex-proxy/codex/delivery"
	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
	"codex-proxy/probes"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/turn"
	"codex-proxy/workers/dispatch"
)

// statusClientGone is nginx's number for a client that closed its connection, for logs
// and metrics.
const statusClientGone = 499

// longWait is a wait that a client must not make by itself. OpenAI's libraries sleep,
// twice and silently, for a Retry-After of up to a minute, unless X-Should-Retry forbids it.
const longWait = time.Minute

// shouldRetry is a header by which OpenAI's libraries repeat a request or do not.
const shouldRetry = "X-Should-Retry"

// envelope turns errors of all rooms into answers.
type envelope struct {
	report    func() probes.Report
	nextPlace func() time.Duration
	noModel   func(x *Exchange, model string) *openai.Error
	logger    *slog.Logger
}

// write writes err in the envelope, unless an answer has begun or the client has gone.
func (e *envelope) write(w http.ResponseWriter, x *Exchange, err error) {
	answer := e.outcome(x, err)
	switch {
	case x.Status != 0:
		return
	case answer == nil: // without an answer net/http would send 200 to a client that only half closed
		w.Header().Set("Connection", "close")
		w.WriteHeader(statusClientGone)
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	if answer.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(answer.RetryAfter.Round(time.Second).Seconds())))
	}
	if answer.RetryAfter >= longWait && answer.Header.Get(shouldRetry) == "" {
		w.Header().Set(shouldRetry, "false")
	}
	status, body := x.failure(answer)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The status line is out: an error here can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(body)
}

// ClientGone reports whether a request ended because its client closed the connection:
// net/http cancels the request's context without a cause of ours.
func ClientGone(err error) bool {
	return errors.Is(err, turn.ErrClientGone) || errors.Is(err, context.Canceled)
}

// outcome records err as the outcome of the exchange, and returns the error for the
// client; nil if the client has gone.
func (e *envelope) outcome(x *Exchange, err error) *openai.Error {
	if ClientGone(err) {
		x.Outcome = "client_gone"
		return nil
	}
	answer := e.answer(x, err)
	x.Outcome = answer.Code
	return answer
}

// answer is the error that a client receives for err. An error of any other kind is logged and becomes a plain 500.
func (e *envelope) answer(x *Exchange, err error) *openai.Error {
	var known *openai.Error
	var refusal *rpc.Error
	var failed *turnerror.Error
	var silent *turn.SilentError
	var exhausted *dispatch.ExhaustedError
	var hands *turn.HandsError
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, dispatch.ErrNoModel):
		return e.noModel(x, x.Model)
	case errors.As(err, &exhausted):
		return exhaustedError(exhausted.Until, time.Now())
	case errors.As(err, &hands):
		return handsError(hands)
	case errors.Is(err, dispatch.ErrDraining), errors.Is(err, dispatch.ErrNotReady), errors.Is(err, dispatch.ErrBusy),
		errors.Is(err, dispatch.ErrQueueFull):
		return e.unavailable(err)
	case errors.Is(err, ErrDeadline):
		return openai.Unavailable("draining",
			"the service stopped before this answer was finished; send the request again", time.Second)
	case errors.As(err, &failed):
		failure := turnError(failed, x.HistoryField)
		x.Detail = detail(failed, failure)
		return failure
	case errors.As(err, &refusal):
		return rpcError(refusal)
	case errors.Is(err, rpc.ErrLost):
		return openai.Unavailable("worker_exited", "the worker exited during the turn; send the request again",
			probes.RetryAfter(e.report(), time.Now()))
	case errors.Is(err, delivery.ErrSlowConsumer):
		return openai.Timeout("slow_client", "the answer was not read fast enough and was given up")
	case errors.Is(err, rpc.ErrTooLarge):
		return openai.TooLarge("", "the messages are larger than the worker accepts")
	case errors.As(err, &silent):
		return openai.Timeout("idle_timeout", silent.Error())
	case errors.Is(err, turn.ErrInterrupted):
		return openai.Unavailable("turn_interrupted", "the worker interrupted the turn; send the request again",
			time.Second)
	case errors.Is(err, turn.ErrImagesTimeout):
		return imagesTimeout(x.HistoryField)
	case errors.Is(err, turn.ErrStartTimeout):
		return openai.Timeout("request_timeout", "the worker did not take the turn in time")
	case errors.Is(err, stored.ErrUnavailable):
		return openai.Unavailable("responses_unavailable", "stored responses cannot be used just now; "+
			"send the whole conversation as input, or the request again later", 10*time.Second)
	}
	e.logger.Error("request failed", "request_id", x.ID, "error", err)
	return internalError(x.ID)
}

// unavailable explains why there was no place on a worker.
func (e *envelope) unavailable(err error) *openai.Error {
	switch {
	case errors.Is(err, dispatch.ErrDraining):
		return openai.Unavailable("draining", "the service is stopping; send the request again in a moment",
			time.Second)
	case errors.Is(err, dispatch.ErrQueueFull):
		return openai.TooMany(openai.TypeRateLimit, "concurrency_exceeded",
			"the queue is full, and most of it are requests with this API key; send fewer at the same time",
			e.nextPlace())
	case errors.Is(err, dispatch.ErrLogins), errors.Is(err, dispatch.ErrPaused):
		return outError(err)
	case errors.Is(err, dispatch.ErrHeld):
		return heldError()
	case errors.Is(err, dispatch.ErrDecoding):
		return openai.Unavailable("overloaded",
			"every worker is busy with the images of other requests; send the request again", e.nextPlace())
	case errors.Is(err, dispatch.ErrBusy):
		return openai.Unavailable("overloaded", "every worker is at its in-flight limit; send the request again",
			e.nextPlace())
	}
	r := e.report()
	if r.Health.Readiness.Reason == probes.Draining {
		return openai.Unavailable("draining",
			"every worker that could take it is drained; send the request again later",
			probes.RetryAfter(r, time.Now()))
	}
	message := fmt.Sprintf("no worker is ready: %s", r.Health.Readiness.Reason)
	if r.Health.Readiness.Ready {
		message = "the worker that has this model is not ready"
	}
	return openai.Unavailable("worker_not_ready", message+"; GET /readyz tells more", probes.RetryAfter(r, time.Now()))
}

func internalError(id string) *openai.Error {
	return &openai.Error{
		Status: http.StatusInternalServerError, Type: openai.TypeServer, Code: "internal_error",
		Message: "internal error; the journal has the reason under request_id=" + id,
	}
}

// recover keeps a panic within its request. It cuts off an answer that has begun, so that
// the client does not take it for a whole one.
func (e *envelope) recover(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			x := exchangeOf(r)
			e.logger.Error("panic in a request", "request_id", x.ID, "panic", p, "stack", string(debug.Stack()))
			begun := x.Status != 0
			e.write(w, x, internalError(x.ID))
			if begun {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/workers"
)

// maxAttempts bounds how often a request runs: one that kills its workers must
// not go on doing so.
const maxAttempts = 3

// Why a turn was lost. The values are those of the label reason of
// codex_turn_retries_total.
const (
	lostWorker      = "worker_exited"   // the connection to the worker ended
	lostStopping    = "worker_stopping" // the worker takes no new turns
	lostOverloaded  = "overloaded"      // so it said for as long as a start may take
	lostStart       = "start_timeout"   // it did not answer
	lostInterrupted = "interrupted"     // it ended the turn, and nobody here had asked for that
)

var lossReasons = []string{lostWorker, lostStopping, lostOverloaded, lostStart, lostInterrupted}

// errStartTimeout ends the start of a turn that its worker does not answer.
var errStartTimeout = errors.New("the worker did not take the turn in time")

// heavyImages is the number of bytes of images from which a request itself is the
// reason if its worker does not take the turn in time: codex needs seconds to decode
// them, and would need them again on the next worker. It is half of decodingRoom, which
// leaves room for others.
const heavyImages = 256 << 20

// errImagesTimeout is errStartTimeout of a request with such images.
var errImagesTimeout = errors.New("the worker did not decode the images in time")

// errInterrupted is the end of a turn that the worker interrupted by itself.
var errInterrupted = errors.New("the worker interrupted the turn")

// lossReason tells a turn that was lost from one that has failed, which is
// empty: what the model endpoint or codex said of a request, it would say again.
func lossReason(err error) string {
	var rpc *appserver.RPCError
	switch {
	case errors.Is(err, appserver.ErrConnectionLost):
		return lostWorker
	case errors.Is(err, errStartTimeout):
		return lostStart
	case errors.Is(err, errInterrupted):
		return lostInterrupted
	case !errors.As(err, &rpc):
		return ""
	case rpc.ShuttingDown():
		return lostStopping
	case rpc.Code == appserver.CodeOverloaded:
		return lostOverloaded
	default:
		return ""
	}
}

// runTurn runs a turn and hands it to answer, and runs it again, ahead of the
// queue, while it is lost and nothing speaks against that. x is the exchange that
// the turn counts for, ask.Key and ask.Arrived come from it. end, if there is one,
// is called when the turn has been answered and is still to be closed: nobody waits
// for the worker's answer to that.
func (s *Server) runTurn(w http.ResponseWriter, r *http.Request, x *exchange, ask workers.Ask, request appserver.TurnRequest, answer func(*appserver.Turn) error, end func() error) error {
	ask.Key, ask.Arrived = x.key, x.began
	c := s.threads.continuation(x.key, request)
	x.request = &request
	if ask.Prefer == "" {
		ask.Prefer = c.worker()
	}
	var lease *workers.Lease
	defer func() {
		if lease != nil {
			lease.Release()
		}
	}()
	for {
		var err error
		if lease, err = s.admission(r.Context(), x, ask); err != nil {
			return err
		}
		x.attempts++
		w.Header().Set("X-Codex-Attempts", strconv.Itoa(x.attempts))
		x.turn = x.span.Child("turn")
		err = s.attempt(r.Context(), lease, x, c, answer, end)
		outcome := turnOutcome(r.Context(), err)
		s.metrics.turns.WithLabelValues(outcome).Inc()
		x.endTurn(outcome)
		reason := lossReason(err)
		if reason == lostStart && ask.Decoding >= heavyImages {
			return errImagesTimeout
		}
		if reason == "" || !x.repeatable() {
			return err
		}
		s.metrics.retries.WithLabelValues(reason).Inc()
		s.Logger.Info("turn lost, it runs again", "request_id", x.id, "worker", x.worker, "reason", reason, "attempt", x.attempts)
		ask.Lost = lease
		if reason != lostOverloaded && reason != lostInterrupted { // those workers may do better; the others are on their way out
			ask.Avoid = append(ask.Avoid, lease.Conn)
		}
		x.usage, x.items = nil, nil
	}
}

// repeatable reports whether a lost turn may run again: nothing at all has been
// written to the client, a keepalive comment included, the model has called no
// tool, and tries are left.
func (x *exchange) repeatable() bool {
	return x.request != nil && !x.acted && x.attempts < maxAttempts
}

// beginTurn starts the turn. After an error codex may still be at work on it, and
// the place on the worker is not free until codex has ended that.
func (s *Server) beginTurn(
	ctx context.Context, lease *workers.Lease, x *exchange, c *continuation,
) (*appserver.Turn, error) {
	let := lease.Hold() // or the images of a thread that codex refuses would make room for others
	defer let()
	started, err := x.awaitStart(ctx)
	if err != nil {
		return nil, err
	}
	turn, err := s.startTurn(ctx, lease, x, *x.request, c)
	started()
	if err == nil {
		lease.Decoded() // codex decodes them before it answers thread/inject_items
	}
	return turn, err
}

func (s *Server) attempt(ctx context.Context, lease *workers.Lease, x *exchange, c *continuation,
	answer func(*appserver.Turn) error, end func() error) error {
	x.suspect = lease.Suspect
	turn, err := s.beginTurn(ctx, lease, x, c)
	if err != nil {
		if errors.Is(err, errStartTimeout) {
			x.suspect()
		}
		return whyEnded(ctx, err)
	}
	kept := false
	defer func() {
		if !kept {
			closeTurn(ctx, turn)
		}
	}()
	x.thread = turn.ThreadID()
	lease.Annotate(x.thread, x.id)
	if err := answer(turn); err != nil {
		return err
	}
	kept = c.keep(repeated(x.items), turn, lease.Worker)
	if end == nil {
		return nil
	}
	return end()
}

package turn

import (
	"errors"
	"fmt"
	"time"

	"codex-proxy/codex/rpc"
	"codex-proxy/codex/turnerror"
)

var (
	// ErrClientGone ends a turn if its client closes the connection.
	ErrClientGone = errors.New("the client closed the connection")
	// ErrStartTimeout ends the start of a turn that the worker does not answer.
	ErrStartTimeout = errors.New("the worker did not take the turn in time")
	// ErrImagesTimeout is ErrStartTimeout of a request with many bytes of images.
	ErrImagesTimeout = errors.New("the worker did not decode the images in time")
	// ErrEnough is the error with which a sink ends a turn early: the answer is whole
	// without the rest. The turn is interrupted, and Sink.Finish ends the answer with Enough.
	ErrEnough = errors.New("the answer is whole before the turn has ended")
	// ErrInterrupted is the end of a turn that the worker interrupted by itself.
	ErrInterrupted = errors.New("the worker interrupted the turn")
)

// SilentError ends a turn of which the worker sent nothing for too long.
type SilentError struct{ After time.Duration }

// Error implements error.
func (e *SilentError) Error() string { return fmt.Sprintf("the worker sent nothing for %s", e.After) }

// The reasons for which a turn is lost: the values of the label reason of
// codex_turn_retries_total.
const (
	lostWorker      = "worker_exited"   // the connection to the worker ended
	lostStopping    = "worker_stopping" // the worker accepts no new turns
	lostOverloaded  = "overloaded"      // the same, for as long as a start may take
	lostStart       = "start_timeout"   // the worker did not answer
	lostInterrupted = "interrupted"     // the worker ended the turn without a request to do so
	lostBroker      = "broker_exited"   // the broker of the worker ended before the endpoint's answer
	lostFault       = "codex_failed"    // a codex that is new failed by itself
)

var lossReasons = []string{lostWorker, lostStopping, lostOverloaded, lostStart, lostInterrupted, lostBroker, lostFault}

// codexFault names the fault of codex; it is empty if the turn has no error, or one of the model endpoint, the account
// or the request. An interrupted stream is most often a fault of the endpoint or the network.
func codexFault(err error) string {
	var failed *turnerror.Error
	var silent *SilentError
	switch reason := lossReason(err); {
	case reason == lostWorker, reason == lostStart, reason == lostInterrupted:
		return reason
	case errors.As(err, &silent):
		return err.Error()
	case errors.As(err, &failed) && failed.OfCodex():
		return failed.Error()
	}
	return ""
}

// lossReason is the reason for which a turn was lost. It is empty for a turn that
// failed: the model endpoint and codex would refuse the same request again.
func lossReason(err error) string {
	var refusal *rpc.Error
	switch {
	case errors.Is(err, rpc.ErrLost):
		return lostWorker
	case errors.Is(err, ErrStartTimeout):
		return lostStart
	case errors.Is(err, ErrInterrupted):
		return lostInterrupted
	case !errors.As(err, &refusal):
		return ""
	case refusal.ShuttingDown():
		return lostStopping
	case refusal.Code == rpc.CodeOverloaded:
		return lostOverloaded
	default:
		return ""
	}
}

// brokerLost reports whether a turn was lost with the broker of its worker: that answers for an endpoint which cannot
// be reached, so a request without an answer has met the end of the broker.
func brokerLost(t *run, err error) bool {
	var failed *turnerror.Error
	return errors.As(err, &failed) && failed.Upstream().Phase == turnerror.Unsent && t.Brokered != nil &&
		t.Brokered(t.lease.Worker)
}

package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The reasons why no worker could be picked.
var (
	ErrDraining = errors.New("the service is draining")
	ErrNotReady = errors.New("no worker is ready")
	ErrNoModel  = errors.New("no ready worker has this model")
	ErrBusy     = errors.New("every worker is at its in-flight limit")
	// ErrDecoding is ErrBusy of a request with images.
	ErrDecoding = fmt.Errorf("%w for images", ErrBusy)
)

var (
	// ErrGivenUp is ErrNotReady where no waiting helps: an operator has to act.
	ErrGivenUp = fmt.Errorf("%w, nor will be by itself", ErrNotReady)
	// ErrAway is ErrNotReady of a worker that has, or may have, the model and
	// is expected back.
	ErrAway = fmt.Errorf("%w that has this model", ErrNotReady)
)

// ExhaustedError means that every account that may serve the request is out, at least one of
// them because its quota is used up.
type ExhaustedError struct {
	// Until is when the first of them may have quota again; zero if that is not known.
	Until time.Time
}

// Error implements error.
func (e *ExhaustedError) Error() string {
	if e.Until.IsZero() {
		return "no account has quota"
	}
	return "no account has quota until " + e.Until.Format(time.RFC3339)
}

// Accounts that are out for another reason than their quota need an operator.
var (
	// ErrLogins means that the logins of all accounts that may serve the request are refused.
	ErrLogins = fmt.Errorf("%w: no login of an account is accepted", ErrNotReady)
	// ErrPaused means that an operator has paused all of them.
	ErrPaused = fmt.Errorf("%w: every account is paused", ErrNotReady)
	// ErrHeld means that the conversation has rotated less than accounts.RotationPause ago,
	// and that its account does not serve.
	ErrHeld = fmt.Errorf("%w: the conversation waits for its next account", ErrBusy)

	errExhausted = errors.New("the account's quota is used up")
	errHeld      = errors.New("the conversation may not rotate yet")
)

// heldError is ErrHeld until a time.
type heldError struct{ until time.Time }

// Error implements error.
func (e *heldError) Error() string { return ErrHeld.Error() }

// Unwrap makes it ErrHeld, and ErrBusy.
func (e *heldError) Unwrap() error { return ErrHeld }

// heldUntil is the time of a heldError; zero for any other verdict.
func heldUntil(verdict error) time.Time {
	var held *heldError
	if errors.As(verdict, &held) {
		return held.until
	}
	return time.Time{}
}

// out reports whether all accounts are out, so that a request does not wait.
func out(verdict error) bool {
	var exhausted *ExhaustedError
	return errors.As(verdict, &exhausted) || errors.Is(verdict, ErrLogins) || errors.Is(verdict, ErrPaused)
}

// hopeless reports whether a wait gives the worker no place for the request.
func hopeless(vacancy error) bool { return oneOf(vacancy, ErrNoModel, ErrNotReady, ErrGivenUp) }

// oneOf compares sentinels, some of which wrap another one.
func oneOf(vacancy error, sentinels ...error) bool { return slices.Contains(sentinels, vacancy) }

// nearer is the error of the worker that was closer to being picked.
func nearer(a, b error) error {
	order := []error{ErrGivenUp, ErrNotReady, ErrNoModel, ErrPaused, ErrLogins, errExhausted, ErrAway, ErrBusy,
		ErrDecoding, errHeld}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

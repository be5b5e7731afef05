package workers

import (
	"errors"
	"fmt"
	"slices"
	"time"
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
func hopeless(vacancy error) bool { return oneOf(vacancy, ErrNoModel, ErrNotReady, errGivenUp) }

// oneOf compares sentinels, some of which wrap another one.
func oneOf(vacancy error, sentinels ...error) bool { return slices.Contains(sentinels, vacancy) }

// Package canary tries a codex before a client's turn runs on it: a list of steps with a codex app-server whose model
// is an endpoint of this package, without a network and without a login.
package canary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"codex-proxy/internal/cause"
)

// FirstLimit bounds each step, and StepLimit once one was too slow for that, as on a machine that is busy. The slowest
// step of a good codex takes less than a second with two processors.
const (
	FirstLimit = 3 * time.Second
	StepLimit  = 10 * time.Second
)

// Limit is the bound of each step.
type Limit func(step string) time.Duration

// Limits are those of the first and of the last try.
func Limits() []Limit {
	return []Limit{
		func(string) time.Duration { return FirstLimit },
		func(string) time.Duration { return StepLimit },
	}
}

// Step is a part of a trial.
type Step struct {
	Name string // completes "it fails at "
	Run  func(context.Context) error
}

// Failure is why a codex has failed its trial.
type Failure struct {
	Step, Reason string
	Late         bool // the step has not finished within its limit, which may be the fault of the machine
}

// Error implements error.
func (f *Failure) Error() string { return "it fails at " + f.Step + ": " + f.Reason }

// Run runs the steps in their order, each within its limit. An error is a *Failure: of the first step that fails.
func Run(ctx context.Context, limit Limit, steps ...Step) error {
	for _, step := range steps {
		if err := step.bounded(ctx, limit(step.Name)); err != nil {
			var late *lateError
			reason := strings.Join(strings.Fields(err.Error()), " ")
			return &Failure{Step: step.Name, Reason: reason, Late: errors.As(err, &late)}
		}
	}
	return nil
}

// Try runs steps that begin anew with each run: with each limit, until no step is late.
func Try(limits []Limit, run func(Limit) error) (err error) {
	for _, limit := range limits {
		err = run(limit)
		var failed *Failure
		if !errors.As(err, &failed) || !failed.Late {
			break
		}
	}
	return err
}

// lateError is the end of a step at its limit.
type lateError struct{ limit time.Duration }

func (e *lateError) Error() string { return fmt.Sprintf("it has not finished within %s", e.limit) }

func (s Step) bounded(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &lateError{limit})
	defer cancel()
	return cause.Of(ctx, s.Run(ctx))
}

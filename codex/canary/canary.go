// Package canary tries a codex before a client's turn runs on it: a list of steps with a codex app-server whose model
// is an endpoint of this package, without a network and without a login.
package canary

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codex-proxy/internal/cause"
)

// StepLimit bounds each step. The slowest one of a good codex takes less than a second, on a busy machine with two
// processors.
const StepLimit = 10 * time.Second

// Step is a part of a trial.
type Step struct {
	Name string // completes "it fails at "
	Run  func(context.Context) error
}

// Failure is why a codex has failed its trial.
type Failure struct{ Step, Reason string }

// Error implements error.
func (f *Failure) Error() string { return "it fails at " + f.Step + ": " + f.Reason }

// Run runs the steps in their order, each within limit. An error is a *Failure: of the first step that fails.
func Run(ctx context.Context, limit time.Duration, steps ...Step) error {
	for _, step := range steps {
		if err := step.bounded(ctx, limit); err != nil {
			return &Failure{Step: step.Name, Reason: strings.Join(strings.Fields(err.Error()), " ")}
		}
	}
	return nil
}

func (s Step) bounded(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not finished within %s", limit))
	defer cancel()
	return cause.Of(ctx, s.Run(ctx))
}

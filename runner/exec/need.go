package exec

import (
	"context"
	"errors"
	"fmt"

	"codex-proxy/runner/environment"
)

// Need is an environment that a command waits for. The sandbox writes it, so the daemon computes the key anew.
type Need struct {
	Key   string            `json:"key"` // of Order
	Order environment.Order `json:"order"`
	// Missing is true if the daemon has provided it, but it was not there or not whole.
	Missing bool `json:"missing,omitempty"`
}

// provide asks the daemon for an environment, and returns when that is there, or the reason why it will not be.
func (r *run) provide(ctx context.Context, need *Need) error {
	r.mu.Lock()
	r.need = need
	r.enterLocked(Awaiting)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.need = nil
		r.enterLocked(Preparing)
	}()
	select {
	case err := <-r.provided:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// provision passes the daemon's answer on.
func (r *run) provision(key, fault string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.need == nil || r.need.Key != key || len(r.provided) > 0 {
		return fmt.Errorf("the command does not wait for the environment %.40q", key)
	}
	var err error
	if fault != "" {
		err = errors.New(fault)
	}
	r.provided <- err
	return nil
}

// Package upgrade has the steps of root in a change to another codex: it takes a copy of a codex that is newly
// installed and has it tried, and it goes back to the one before. codex-copies.service runs it while the daemon, which
// has no right to either, asks for a step.
package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/ondemand"
)

// The paths of the requests.
const (
	lookPath = "/look"
	backPath = "/back"
)

const (
	// TrialBound is longer than a trial and the taking of a copy.
	TrialBound = 180 * time.Second
	// maxRequest and maxReason bound a request and the reason in it, in bytes.
	maxRequest = 16 << 10
	maxReason  = 1 << 10
)

// Outcome is the result of a look at the installed codex.
type Outcome struct {
	Copy   string `json:"copy,omitempty"` // of the installed codex; empty: it has none
	Tried  bool   `json:"tried,omitempty"`
	Reason string `json:"reason,omitempty"` // why it is not in use; empty if it is
}

// Back orders the way back.
type Back struct {
	Copy   string `json:"copy"`   // which is in use, and fails
	Reason string `json:"reason"` // of the failure
	// Undo puts the copy that the last way back has left into use again: it was no fault of codex.
	Undo bool `json:"undo,omitempty"`
}

// Steps are the steps of root.
type Steps struct {
	Store  *copies.Store
	Policy func() (copies.Policy, error)
	Find   func() (program string, err error)           // the installed codex of units that name none
	Try    func(ctx context.Context, unit string) error // starts the unit and waits for its end
	Logger *slog.Logger

	mu sync.Mutex // one step at a time
}

// NewServer serves the steps until it was unused for a time.
func (s *Steps) NewServer(unused time.Duration) *ondemand.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+lookPath, func(w http.ResponseWriter, r *http.Request) {
		o, err := s.Look(r.Context())
		reply(w, o, err)
	})
	mux.HandleFunc("POST "+backPath, func(w http.ResponseWriter, r *http.Request) {
		var b Back
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&b)
		if err == nil {
			err = s.Back(r.Context(), b)
		}
		reply(w, struct{}{}, err)
	})
	return ondemand.NewServer(mux, TrialBound, unused, s.Logger)
}

func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		w.Header().Set(ondemand.ReasonHeader, strings.Join(strings.Fields(err.Error()), " "))
		w.WriteHeader(http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // the daemon may have gone
}

// Look takes a copy of the installed codex. If no unit has run that one yet, it is tried, and then in use or held back.
func (s *Steps) Look(ctx context.Context) (o Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	policy, err := s.Policy()
	if err != nil {
		return o, err
	}
	state, err := s.Store.State()
	if err != nil {
		return o, err
	}
	if policy != copies.Follow || state.Pinned != "" {
		o.Reason = "the operator has chosen another one"
		return o, nil
	}
	program, err := s.Find()
	if err != nil {
		return o, err
	}
	if known := s.Store.Installed(program); known.Held != nil { // its copy may be gone
		o.Copy, o.Reason = known.Copy, known.Held.Reason
		return o, nil
	}
	c, err := s.Store.Take(ctx, program)
	var inPlace *copies.InPlaceError
	if errors.As(err, &inPlace) { // units run it where it is
		o.Reason = inPlace.Reason
		return o, nil
	}
	if err != nil {
		return o, err
	}
	o.Copy = c.Name
	if held, is := state.HeldBack(c.Name); is { // and it is installed anew
		o.Reason = held.Reason
		return o, heldAgain(ctx, s.Store, held)
	}
	if c.Name == state.InUse {
		return o, nil
	}
	return s.try(ctx, o)
}

// heldAgain records the installation that has the same bytes, so that it is known without a copy, and removes that.
func heldAgain(ctx context.Context, store *copies.Store, held copies.Held) error {
	if err := store.Hold(ctx, held.Copy, held.Reason); err != nil {
		return err
	}
	_, err := store.Prune(ctx)
	return err
}

func (s *Steps) try(ctx context.Context, o Outcome) (Outcome, error) {
	s.Logger.Info("a new codex is installed: it is tried first", "copy", o.Copy)
	unit := copies.CanaryUnit(o.Copy)
	if err := s.Store.Assign(ctx, unit, o.Copy); err != nil { // or a start of a worker would remove it as unused
		return o, err
	}
	failed := s.Try(ctx, unit) // the state says more, if the trial has begun
	_ = s.Store.Assign(ctx, unit, "")
	o.Tried = true
	state, err := s.Store.State()
	if err != nil {
		return o, err
	}
	held, is, inUse := state.FateOf(o.Copy)
	switch {
	case is:
		o.Copy, o.Reason = held.Copy, held.Reason
	case inUse:
		o.Copy = state.InUse
	case failed != nil:
		return o, fmt.Errorf("cannot try codex: %w", failed)
	default:
		return o, errors.New("the trial of codex was stopped")
	}
	return o, nil
}

// Back holds the copy that is in use back, and puts the one before into use.
func (s *Steps) Back(ctx context.Context, b Back) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err := s.Store.State()
	if err != nil {
		return err
	}
	if b.Undo {
		return s.undo(ctx, state, b.Copy)
	}
	if state.InUse != b.Copy || state.Before == "" {
		return fmt.Errorf("%s is not in use any more, or there was none before", b.Copy)
	}
	reason := strings.Join(strings.Fields(b.Reason), " ")
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	if err := s.Store.Hold(ctx, b.Copy, reason); err != nil {
		return err
	}
	s.Logger.Error("codex is held back: turns on it fail, and the one before is in use again", "copy", b.Copy,
		"before", state.Before, "reason", reason)
	return nil
}

func (s *Steps) undo(ctx context.Context, state copies.State, name string) error {
	held, is := state.HeldBack(name)
	// A way back changes the copy in use and holds the other one at once; a trial does not.
	if !is || held.Time.Before(state.Changed) || held.Time.Sub(state.Changed) > time.Second {
		return fmt.Errorf("the last change was no way back from %s", name)
	}
	if err := s.useAgain(ctx, name); err != nil {
		return err
	}
	s.Logger.Info("codex is in use again: the request that failed on it fails on the one before, too", "copy", name,
		"before", state.InUse)
	return nil
}

// useAgain puts a copy into use that may have gone when the last unit changed to another one.
func (s *Steps) useAgain(ctx context.Context, name string) error {
	err := s.Store.Use(ctx, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	program, fault := s.Find()
	if fault != nil {
		return errors.Join(err, fault)
	}
	if c, fault := s.Store.Take(ctx, program); fault != nil || c.Name != name {
		return errors.Join(err, fault)
	}
	return s.Store.Use(ctx, name)
}

package copies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
)

// StateFile is the name of the file with the state, in the directory of the store.
const StateFile = "state.json"

// heldLimit is the number of copies that the state remembers as held: the oldest are forgotten.
const heldLimit = 16

// State decides about the starts of units. Copies are named by their directories; a copy may be gone.
type State struct {
	InUse   string    `json:"in_use,omitempty"` // which a start takes
	Before  string    `json:"before,omitempty"` // which was in use before
	Changed time.Time `json:"changed,omitzero"` // since when InUse is in use
	Held    []Held    `json:"held,omitempty"`   // which no start takes by itself
	Pinned  string    `json:"pinned,omitempty"` // which stays in use, by an order of the operator; empty: the settings decide
}

// Held is a copy that failed. Source and File are those of the copy, which may be gone.
type Held struct {
	Copy   string    `json:"copy"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	Source string    `json:"source,omitempty"`
	File   string    `json:"file,omitempty"`
}

// HeldBack returns the record of a copy that is held.
func (s State) HeldBack(name string) (Held, bool) {
	i := slices.IndexFunc(s.Held, func(h Held) bool { return h.Copy == name })
	if i < 0 {
		return Held{}, false
	}
	return s.Held[i], true
}

// use puts the copy called name into use.
func (s *State) use(name string) {
	s.Held = slices.DeleteFunc(s.Held, func(h Held) bool { return h.Copy == name })
	if s.InUse == name {
		return
	}
	s.InUse, s.Before, s.Changed = name, s.InUse, time.Now().UTC()
}

// State reads the state. A store without one has an empty one.
func (s *Store) State() (State, error) {
	var state State
	text, err := os.ReadFile(filepath.Join(s.Dir, StateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		return State{}, fmt.Errorf("cannot read the state of the copies of codex: %w", err)
	}
	return state, nil
}

// Change changes the state while no other process does. An unreadable state is replaced.
func (s *Store) Change(ctx context.Context, change func(*State) error) error {
	if err := makeDirs(s); err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, _ := s.State()
	if err := change(&state); err != nil {
		return err
	}
	if len(state.Held) > heldLimit {
		state.Held = state.Held[len(state.Held)-heldLimit:]
	}
	if err := writeFile(filepath.Join(s.Dir, StateFile), state); err != nil {
		return fmt.Errorf("cannot write the state of the copies of codex: %w", err)
	}
	return nil
}

// Use puts a whole copy into use, unless Pin keeps another one there. It is not held any more.
func (s *Store) Use(ctx context.Context, name string) error {
	return s.Change(ctx, func(state *State) error {
		if _, err := s.Get(name); err != nil { // no other process removes it before it is in use
			return err
		}
		if state.Pinned != "" && state.Pinned != name {
			return fmt.Errorf("%s stays in use by order of an operator, until `codex-proxy codex follow`", state.Pinned)
		}
		state.use(name)
		return nil
	})
}

// Pin keeps a copy in use until Follow, whatever else is installed.
func (s *Store) Pin(ctx context.Context, name string) error {
	return s.Change(ctx, func(state *State) error {
		if _, err := s.Get(name); err != nil { // see Use
			return err
		}
		state.use(name)
		state.Pinned = name
		return nil
	})
}

// Follow ends Pin.
func (s *Store) Follow(ctx context.Context) error {
	return s.Change(ctx, func(state *State) error { state.Pinned = ""; return nil })
}

// Hold holds a copy back. If it is in use, the one before comes back, if that is whole. Terminals show the reason,
// which may have words of codex.
func (s *Store) Hold(ctx context.Context, name, reason string) error {
	if !ValidName(name) {
		return fmt.Errorf("%q is not the name of a copy of codex: want VERSION-HASH", name)
	}
	reason = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, reason)
	return s.Change(ctx, func(state *State) error {
		if state.InUse == name {
			if _, err := s.Get(state.Before); err != nil {
				return fmt.Errorf("nothing can take the place of %s: %w", name, err)
			}
			state.use(state.Before)
			state.Before = ""
		}
		state.Held = slices.DeleteFunc(state.Held, func(h Held) bool { return h.Copy == name })
		c, _ := s.Get(name) // of one that is gone the source is unknown
		state.Held = append(state.Held, Held{name, reason, time.Now().UTC(), c.Source, c.File})
		if state.Pinned == name {
			state.Pinned = ""
		}
		return nil
	})
}

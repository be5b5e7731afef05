// Package accounts has the known state of the accounts behind the workers, their quota
// above all, and decides by it which account a turn runs on and which workers are kept
// started. Its decisions are pure functions of values: the pool (workers) and the
// daemon carry them out.
//
// An account has the name of its worker. Workers with logins of the same account at
// OpenAI share one quota.
package accounts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	// ErrUnknown is a name that no account has.
	ErrUnknown = errors.New("no such account")
	// ErrNotAvailable is an account that cannot be the one in use: it is paused or has no
	// quota, or it is low while another one is available.
	ErrNotAvailable = errors.New("the account is not available now")
)

// Store has the known state of each account. Its methods are safe for concurrent use. A nil
// Store decides nothing and records nothing.
type Store struct {
	// Rotations are the last ones of conversations.
	Rotations Rotations

	onChange func()

	mu sync.Mutex
	ledger
}

// NewStore makes the store of the named accounts, in the order of the policy; accounts that
// the policy does not order are last. onChange is called after each change of a state, a
// pause, an identity or the account in use, from any goroutine and without a lock.
func NewStore(p Policy, names []string, onChange func()) *Store {
	b := &Store{
		onChange: onChange, Rotations: Rotations{last: map[string]Rotated{}},
		ledger: ledger{policy: p, entries: map[string]*entry{}, quotas: map[string]Quota{}},
	}
	for _, name := range append(slices.Clone(p.Order), names...) {
		if slices.Contains(names, name) && b.entries[name] == nil {
			b.order = append(b.order, name)
			b.entries[name] = &entry{}
		}
	}
	if len(b.order) > 0 {
		b.inUse = b.order[0]
	}
	return b
}

// Policy is the policy that the states rest on.
func (b *Store) Policy() Policy {
	if b == nil {
		return Policy{Rotation: Off}
	}
	return b.policy
}

// Read takes over the result of a reading, which began at q.At. quotaID identifies the
// account at OpenAI; if it is empty, no other account shares the quota.
func (b *Store) Read(name, quotaID string, q Quota) {
	b.change(name, q.At, func(e *entry) {
		b.move(name, quotaID)
		if !q.At.Before(e.invalidAt) {
			e.invalidAt = time.Time{}
		}
		sortWindows(q.Windows)
		b.quotas[e.key(name)] = b.quotas[e.key(name)].withReading(q)
	})
}

// Update takes over the windows that codex reported after a turn. It needs no window that
// has not changed.
func (b *Store) Update(name string, windows []Window, at time.Time) {
	b.change(name, at, func(e *entry) {
		b.quotas[e.key(name)] = b.quotas[e.key(name)].withUpdate(windows, at)
	})
}

// Refuse records that the model endpoint refused a turn for the account's quota. The account
// is Exhausted until a reading that began later shows quota. until is the reset that the
// refusal named; zero if it named none.
func (b *Store) Refuse(name string, until, at time.Time) {
	b.change(name, at, func(e *entry) {
		q := b.quotas[e.key(name)]
		if at.After(q.RefusedAt) {
			q.RefusedAt, q.RefusedUntil = at, until
		}
		b.quotas[e.key(name)] = q
	})
}

// Invalidate records that the account's server or the model endpoint refused the login. A
// reading that began later ends it.
func (b *Store) Invalidate(name string, at time.Time) {
	b.change(name, at, func(e *entry) {
		if e.invalidAt.IsZero() {
			e.invalidAt = at
		}
	})
}

// Identify takes over the login that codex reports. The known state of a missing one stays,
// for operators.
func (b *Store) Identify(name string, login Login) {
	b.change(name, login.At, func(e *entry) {
		if login.Missing() && e.login.Type != "" {
			return
		}
		e.login = login
		if login.QuotaID != "" {
			b.move(name, login.QuotaID)
		}
	})
}

// Doubt asks for a reading soon: the known state may be old. It changes no state.
func (b *Store) Doubt(name string, at time.Time) {
	b.change(name, at, func(e *entry) {
		q := b.quotas[e.key(name)]
		q.DoubtedAt = later(q.DoubtedAt, at)
		b.quotas[e.key(name)] = q
	})
}

// SameQuota reports whether both accounts have the same quota.
func (b *Store) SameQuota(one, other string) bool {
	if b == nil || one == other {
		return one == other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	e, o := b.entries[one], b.entries[other]
	return e != nil && o != nil && e.quotaID != "" && e.quotaID == o.quotaID
}

// NextRead is when the account is to be read next, if the last reading of its quota began
// at last.
func (b *Store) NextRead(name string, last, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[name] == nil {
		return now.Add(IdleInterval)
	}
	return b.quota(name).NextReading(b.policy, last, now)
}

// Pause keeps new turns away from an account, or no longer.
func (b *Store) Pause(name string, paused bool) error {
	return b.operate(name, func(e *entry) { e.paused = paused })
}

// Switch makes the account the one in use. It is an error if another one would be in use
// at once, for this one is not available.
func (b *Store) Switch(name string) error {
	var inUse string
	err := b.operate(name, func(*entry) {
		if Next(b.look(b.now), name) == name {
			b.inUse = name
			b.switches++
		}
		inUse = b.inUse
	})
	if err == nil && inUse != name {
		return fmt.Errorf("%w: %q; %q stays in use", ErrNotAvailable, name, inUse)
	}
	return err
}

// Switches is how often an operator has switched the account in use, in this process.
func (b *Store) Switches() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.switches
}

func (b *Store) operate(name string, do func(*entry)) error {
	if b.entries[name] == nil {
		return fmt.Errorf("%w: %q; there are %s", ErrUnknown, name, strings.Join(b.order, ", "))
	}
	b.change(name, time.Time{}, do)
	return nil
}

// change is the only writer. An unknown name changes nothing.
func (b *Store) change(name string, now time.Time, do func(*entry)) {
	if b == nil {
		return
	}
	b.mu.Lock()
	e := b.entries[name]
	if e == nil {
		b.mu.Unlock()
		return
	}
	before := b.look(b.now)
	b.now = later(b.now, now)
	do(e)
	b.settle()
	changed := !slices.EqualFunc(before, b.look(b.now), View.similar)
	b.mu.Unlock()
	if changed {
		b.onChange()
	}
}

// Revision grows with each change.
func (b *Store) Revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revision + b.Rotations.revision()
}

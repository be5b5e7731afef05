package accounts

import "time"

// Saved is the state that a Store keeps across the end of its process.
type Saved struct {
	Accounts map[string]SavedAccount `json:"accounts"`
	InUse    string                  `json:"in_use,omitempty"`
	// Rotations are the rotations still in their pause, by the conversation.
	Rotations map[string]Rotated `json:"rotations,omitempty"`
}

// SavedAccount is one account of Saved.
type SavedAccount struct {
	QuotaID string `json:"quota_id,omitempty"`
	Login   Login  `json:"login"`
	Quota   Quota  `json:"quota"`
	Paused  bool   `json:"paused,omitempty"`
}

// Save returns the state for Restore in the next process.
func (b *Store) Save() Saved {
	b.mu.Lock()
	defer b.mu.Unlock()
	saved := Saved{Accounts: map[string]SavedAccount{}, InUse: b.inUse, Rotations: b.Rotations.saved(b.now)}
	for name, e := range b.entries {
		saved.Accounts[name] = SavedAccount{e.quotaID, e.login, b.quota(name), e.paused}
	}
	return saved
}

// Restore takes over the saved state of another process, except accounts that this one does not
// have. Of each quota and each login, the newer one stays.
func (b *Store) Restore(saved Saved, now time.Time) {
	b.mu.Lock()
	b.now = later(b.now, now)
	for _, name := range b.order {
		if before, ok := saved.Accounts[name]; ok {
			b.restore(name, before.observed(now))
		}
	}
	b.Rotations.restore(saved.Rotations, now)
	if b.entries[saved.InUse] != nil {
		b.inUse = saved.InUse
	}
	b.settle()
	b.mu.Unlock()
	b.onChange()
}

// observed has the times of observations on the clock of this process. One that lies ahead
// is from a clock that was wrong: nothing that is observed now would be newer.
func (s SavedAccount) observed(now time.Time) SavedAccount {
	for _, at := range []*time.Time{&s.Login.At, &s.Quota.At, &s.Quota.RefusedAt, &s.Quota.InvalidAt} {
		if !at.IsZero() {
			*at = now.Add(min(0, at.Sub(now)))
		}
	}
	return s
}

func (l *ledger) restore(name string, before SavedAccount) {
	e := l.entries[name]
	e.paused = before.Paused
	if before.Login.At.After(e.login.At) {
		e.login = before.Login
	}
	own := l.quota(name)
	if e.quotaID == "" && own.At.IsZero() {
		e.quotaID = before.QuotaID
	}
	if e.quotaID != before.QuotaID { // a reading has found another account
		return
	}
	q := before.Quota
	for i, w := range q.Windows {
		q.Windows[i].Length = lengthOf(w.Name)
	}
	if q.InvalidAt.After(own.At) {
		e.invalidAt = q.InvalidAt
	}
	q.InvalidAt = time.Time{}
	l.quotas[e.key(name)] = q.joined(l.quotas[e.key(name)])
}

// joined is the newer of two quotas of one account.
func (q Quota) joined(o Quota) Quota {
	older, newer := q, o
	if q.At.After(o.At) {
		older, newer = o, q
	}
	if older.RefusedAt.After(newer.RefusedAt) && !newer.lifts(older) {
		newer.RefusedAt, newer.RefusedUntil = older.RefusedAt, older.RefusedUntil
	}
	return newer
}

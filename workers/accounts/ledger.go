package accounts

import "time"

// ledger is the state of a Store, which is under the lock of the Store.
type ledger struct {
	policy Policy
	order  []string // all accounts, the first choice first

	entries  map[string]*entry
	quotas   map[string]Quota // by entry.key
	inUse    string
	switches uint64
	now      time.Time // the latest that any method was given
	revision uint64
	blocked  stopwatch // runs while no account has quota
	views    []View    // nil: something has changed
}

// entry is the state of one account alone, whatever shares its quota.
type entry struct {
	login     Login
	quotaID   string // empty: not known
	invalidAt time.Time
	paused    bool
}

// key is the key of the quota.
func (e *entry) key(name string) string {
	if e.quotaID == "" {
		return "worker " + name
	}
	return "id " + e.quotaID
}

// look returns the views. While nothing has changed, it makes none anew: time alone changes
// only the few that aged names.
func (l *ledger) look(now time.Time) []View {
	if l.views == nil {
		l.views = make([]View, 0, len(l.order))
		for _, name := range l.order {
			l.views = append(l.views, l.view(name, now))
		}
		return l.views
	}
	for i, v := range l.views {
		if aged := v.Quota.State(l.policy, now); aged != v.State || !v.Until.IsZero() && !v.Until.After(now) {
			l.views = append([]View(nil), l.views...) // callers have the old ones
			l.views[i] = l.view(v.Name, now)
		}
	}
	return l.views
}

func (l *ledger) view(name string, now time.Time) View {
	e, q := l.entries[name], l.quota(name)
	v := View{
		Name: name, QuotaID: e.quotaID, Login: e.login, Quota: q, State: q.State(l.policy, now),
		Left: q.Left(), Paused: e.paused, InUse: name == l.inUse && l.policy.Rotation == Ordered,
	}
	if v.State == Exhausted {
		v.Until = q.Until(now)
	}
	for _, other := range l.order {
		if other != name && e.quotaID != "" && l.entries[other].quotaID == e.quotaID {
			v.Shared = append(v.Shared, other)
		}
	}
	return v
}

// move makes the account one that has the identified quota. Its known state from before it
// had an identity stays.
func (l *ledger) move(name, quotaID string) {
	e := l.entries[name]
	before, same := l.quotas[e.key(name)], e.quotaID == "" || quotaID == ""
	if e.quotaID == quotaID {
		return
	}
	e.quotaID = quotaID
	if _, known := l.quotas[e.key(name)]; !known && same {
		l.quotas[e.key(name)] = before
	}
	l.dropUnused()
}

// dropUnused drops the quotas that no account has any more.
func (l *ledger) dropUnused() {
	used := map[string]bool{}
	for name, e := range l.entries {
		used[e.key(name)] = true
	}
	for key := range l.quotas {
		if !used[key] {
			delete(l.quotas, key)
		}
	}
}

// settle follows a change of the known state.
func (l *ledger) settle() {
	l.choose()
	l.revision++
	l.blocked.set(blocked(l.look(l.now)), l.now)
}

// choose finds the account in use anew.
func (l *ledger) choose() {
	l.views = nil
	if next := Next(l.look(l.now), l.inUse); next != l.inUse {
		l.inUse, l.views = next, nil
	}
}

// quota is the account's quota, with the state of its own login.
func (l *ledger) quota(name string) Quota {
	e := l.entries[name]
	q := l.quotas[e.key(name)]
	q.InvalidAt = e.invalidAt
	return q
}

package limits

import (
	"slices"
	"time"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/usage"
)

const (
	// mostOwners bounds the threads with a known key. codex makes requests of its own while a turn runs, or soon after.
	mostOwners = 1024
	// mostEarly bounds the hidden uses of threads without a known key.
	mostEarly = 256
)

// owner is the key of the request that a thread of codex has served, and the model that usage counts.
type owner struct {
	key, model string
	perMinute  int64 // the key's limit of tokens
}

// hidden has the use of requests that codex makes by itself, for example for an agent.
type hidden struct {
	owners map[string]owner // by their threads, see of
	order  []string         // of owners, the oldest first
	early  []use            // of no owner yet, the oldest first
}

// use is the use of one request of codex's own, for one of these threads, see of.
type use struct {
	threads []string
	share   usage.Share
}

// of names a thread of an account: the broker of another worker does not report its use.
func of(account, thread string) string { return account + " " + thread }

// own records the owner of a thread, and returns the uses that have waited for it.
func (h *hidden) own(thread string, o owner) (waited []use) {
	if _, has := h.owners[thread]; !has {
		if h.owners == nil {
			h.owners = map[string]owner{}
		}
		if len(h.order) == mostOwners {
			delete(h.owners, h.order[0])
			h.order = slices.Delete(h.order, 0, 1)
		}
		h.order = append(h.order, thread)
	}
	h.owners[thread] = o
	h.early = slices.DeleteFunc(h.early, func(u use) bool {
		is := slices.Contains(u.threads, thread)
		if is {
			waited = append(waited, u)
		}
		return is
	})
	return waited
}

// ownerOf returns the owner of a use; without one the use waits for it.
func (h *hidden) ownerOf(u use) (o owner, known bool) {
	for _, thread := range u.threads {
		if o, known = h.owners[thread]; known {
			return o, true
		}
	}
	if len(h.early) == mostEarly {
		h.early = slices.Delete(h.early, 0, 1)
	}
	h.early = append(h.early, u)
	return o, false
}

// Charge counts the use of a request that codex has made by itself for one of these threads. It counts for the key of
// the client's request that the thread serves: now, or when that request ends.
func (l *Limiter) Charge(threads []string, share usage.Share) {
	u := use{share: share}
	for _, thread := range threads {
		u.threads = append(u.threads, of(share.Account, thread))
	}
	l.mu.Lock()
	o, known := l.hidden.ownerOf(u)
	l.mu.Unlock()
	if known {
		l.charge(o, u)
	}
}

// own has the later use of threads, of the accounts that have shares, be the use of a key.
func (l *Limiter) own(threads []string, shares []usage.Share, o owner) {
	var waited []use
	l.mu.Lock()
	for _, thread := range threads {
		for _, share := range shares {
			waited = append(waited, l.hidden.own(of(share.Account, thread), o)...)
		}
	}
	l.mu.Unlock()
	for _, u := range waited {
		l.charge(o, u)
	}
}

func (l *Limiter) charge(o owner, u use) {
	l.usage.Add(o.key, o.model, u.share)
	if o.key == "" || o.perMinute == 0 && l.shares == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meter(o.key)
	m.spend(auth.Limits{TokensPerMinute: o.perMinute}, u.share.Tokens(), time.Now())
	if l.shares != nil {
		l.shares.spend(o.key, u.share.Tokens())
	}
	l.changed()
}

package appserver

import (
	"crypto/sha256"
	"slices"
	"time"

	"codex-proxy/proxy/appserver/rpc"
)

// Of codex's work on a turn that stands alone, a third is to start its thread, and
// most turns are for threads that all begin alike: with the same instructions and
// tools. So when such a turn has ended, the thread of the next one is started.

// kind is what a thread is started with: a hash of its parameters.
type kind [sha256.Size]byte

// remembered is how many kinds are known again, the others are taken for unique.
const remembered = 64

// ahead are threads that nobody has asked for yet. It is part of state.
type ahead struct {
	known   []kind  // of the last threads, the newest last
	threads []early // the oldest first
}

// early is a thread that waits for its turn.
type early struct {
	kind  kind
	id    string // empty while it is being started
	since time.Time
}

// aheadAge bounds how old a thread is when its turn comes: codex may have noted in
// it what goes out of date, such as the day.
const aheadAge = 10 * time.Minute

// take removes a thread of the kind, and returns none if there is none, and those
// that have become too old.
func (a *ahead) take(k kind) (id string, old []string) {
	a.threads = slices.DeleteFunc(a.threads, func(e early) bool {
		switch {
		case e.id == "":
			return false
		case time.Since(e.since) > aheadAge:
			old = append(old, e.id)
			return true
		case id == "" && e.kind == k:
			id = e.id
			return true
		}
		return false
	})
	return id, old
}

// again reports whether a thread of the kind was started before, and remembers it.
func (a *ahead) again(k kind) (known bool) {
	if i := slices.Index(a.known, k); i >= 0 {
		a.known, known = slices.Delete(a.known, i, i+1), true
	}
	if a.known = append(a.known, k); len(a.known) > remembered {
		a.known = slices.Delete(a.known, 0, 1)
	}
	return known
}

// takeAhead returns a thread that was started like that, if there is one.
func (c *Conn) takeAhead(start *threadStart) (id string) {
	if c.opts.Ahead == 0 {
		return ""
	}
	var old []string
	c.update(func(s *state) {
		start.known = s.ahead.again(start.kind)
		id, old = s.ahead.take(start.kind)
	})
	for _, thread := range old {
		c.postRetrying("thread/unsubscribe", unsubscribeParams{ThreadID: thread}, nil)
	}
	return id
}

// of counts the threads of the kind.
func (a *ahead) of(k kind) (n int) {
	for _, s := range a.threads {
		if s.kind == k {
			n++
		}
	}
	return n
}

// startAhead starts a thread like the turn's, if there are fewer than can be in
// use. It does not wait.
func (t *Turn) startAhead() {
	if t.next == nil || !t.next.known {
		return
	}
	wanted, surplus := false, ""
	t.conn.update(func(s *state) {
		a := &s.ahead
		if a.of(t.next.kind) > len(s.threads) {
			return
		}
		if len(a.threads) >= t.conn.opts.Ahead {
			oldest := slices.IndexFunc(a.threads, func(e early) bool { return e.id != "" })
			if oldest < 0 || a.threads[oldest].kind == t.next.kind {
				return
			}
			surplus = a.threads[oldest].id
			a.threads = slices.Delete(a.threads, oldest, oldest+1)
		}
		wanted = true
		a.threads = append(a.threads, early{kind: t.next.kind})
	})
	if surplus != "" {
		t.conn.postRetrying("thread/unsubscribe", unsubscribeParams{ThreadID: surplus}, nil)
	}
	if wanted {
		t.conn.Post("thread/start", t.next.params, func(r rpc.Reply) { t.conn.startedAhead(t.next.kind, r) })
	}
}

// startedAhead takes the answer. Codex that will not start a thread just now is
// asked again when it is needed.
func (c *Conn) startedAhead(k kind, r rpc.Reply) {
	var resp threadStartResponse
	err := r.Decode(&resp)
	c.update(func(s *state) {
		i := slices.IndexFunc(s.ahead.threads, func(e early) bool { return e.kind == k && e.id == "" })
		if err == nil {
			s.ahead.threads[i].id, s.ahead.threads[i].since = resp.Thread.ID, time.Now()
		} else {
			s.ahead.threads = slices.Delete(s.ahead.threads, i, i+1)
		}
	})
}

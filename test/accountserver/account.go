package accountserver

import "time"

// Readings is how the server answers the readings of a quota.
type Readings string

// The ways to answer readings.
const (
	Answered Readings = ""     // with the quota
	Hanging  Readings = "hang" // not at all, until the way changes
	Failing  Readings = "fail" // 500
)

// Refusals is how the server refuses the turns of an account whose quota is used up.
type Refusals string

// The ways to refuse turns.
const (
	ByStatus Refusals = ""       // 429 usage_limit_reached
	InStream Refusals = "stream" // 200, and an event before any text
	MidText  Refusals = "text"   // 200, RefusedText, and then the event
)

// RefusedText is the text before such a refusal.
const RefusedText = "some text"

// Account is one account at OpenAI.
type Account struct {
	Name   string
	server *Server // its mutex guards the rest

	quota    Quota
	readings Readings
	refusals Refusals
	serial   int  // of the oldest token that the server accepts
	issued   int  // serial of the newest token
	invalid  bool // the login is revoked
	record   Record
}

// Record is what the server received of an account, with its times.
type Record struct {
	Turns     []Turn      `json:"turns"`
	Readings  []time.Time `json:"readings"`
	Refreshes []time.Time `json:"refreshes"` // of tokens
}

// Turn is one request for a model's answer.
type Turn struct {
	ID      string    `json:"id"` // codex's
	At      time.Time `json:"at"`
	Refused bool      `json:"refused"` // for the quota
	Foreign bool      `json:"foreign"` // it has encrypted reasoning of another account
	Text    string    `json:"text"`    // of the last user message
}

// Accepted counts the turns of codex that the account has served in part or in whole, whatever the number of their requests:
// on a full machine codex 0.169 may send one more after the answer to the first message of a thread.
func (r Record) Accepted() int {
	accepted := map[string]bool{}
	for _, t := range r.Turns {
		if !t.Refused {
			accepted[t.ID] = true
		}
	}
	return len(accepted)
}

// Refused counts the turns that were refused for the quota.
func (r Record) Refused() int {
	n := 0
	for _, t := range r.Turns {
		if t.Refused {
			n++
		}
	}
	return n
}

// Foreign counts the turns that had encrypted reasoning of another account.
func (r Record) Foreign() int {
	n := 0
	for _, t := range r.Turns {
		if t.Foreign {
			n++
		}
	}
	return n
}

// Record returns what the server received of the account so far.
func (a *Account) Record() Record {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	return Record{Turns: append([]Turn(nil), a.record.Turns...),
		Readings:  append([]time.Time(nil), a.record.Readings...),
		Refreshes: append([]time.Time(nil), a.record.Refreshes...)}
}

// Quota returns the account's quota as it is now.
func (a *Account) Quota() Quota {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	a.quota.advance(time.Now())
	return a.quota.clone()
}

// Change edits the quota.
func (a *Account) Change(edit func(*Quota)) {
	a.server.update(func() {
		a.quota.advance(time.Now())
		edit(&a.quota)
	})
}

// Allow gives the account n turns in its first window, counted from now.
func (a *Account) Allow(n int) {
	a.Change(func(q *Quota) { q.Windows[0].Used, q.Windows[0].Cost = 0, 100/float64(n) })
}

// Exhaust uses up the first window, which resets at the time.
func (a *Account) Exhaust(resets time.Time) {
	a.Change(func(q *Quota) { q.Windows[0].Used, q.Windows[0].Resets = 100, resets })
}

// Reset empties all windows now, whatever time the server has given for it.
func (a *Account) Reset() {
	a.Change(func(q *Quota) {
		for i := range q.Windows {
			q.Windows[i].Used, q.Windows[i].Resets = 0, time.Now().Add(q.Windows[i].Length)
		}
	})
}

// Read sets how the account's readings are answered from now on; readings that hang get their answer.
func (a *Account) Read(how Readings) { a.server.update(func() { a.readings = how }) }

// Refuse sets how turns beyond the quota are refused from now on.
func (a *Account) Refuse(how Refusals) { a.server.update(func() { a.refusals = how }) }

// Invalidate revokes the login: no token of the account works any more, nor can one be refreshed.
func (a *Account) Invalidate() { a.server.update(func() { a.invalid = true }) }

// Validate makes the login work again, as a new login of an operator does.
func (a *Account) Validate() { a.server.update(func() { a.invalid = false }) }

// Expire makes the server refuse all tokens issued so far; they can be refreshed.
func (a *Account) Expire() { a.server.update(func() { a.issued++; a.serial = a.issued }) }

func (a *Account) accepts(serial int) bool {
	a.server.mu.Lock()
	defer a.server.mu.Unlock()
	return !a.invalid && serial >= a.serial
}

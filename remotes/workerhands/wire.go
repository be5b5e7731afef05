package workerhands

import (
	"net/http"
	"time"

	"codex-proxy/proxy/turn"
)

// The requests of the daemon to the unit.
const (
	alivePath   = "/alive"   // POST: any answer means that the unit serves
	enterPath   = "/enter"   // POST: the answer has a place, and the turn has the session until the connection closes
	toldPath    = "/told"    // POST: a client knows of the checkout
	changesPath = "/changes" // POST: the answer is a patch
	endPath     = "/end"     // POST: the session is closed
)

// question is the body of these requests.
type question struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	// OfTurn has the session end with the turn.
	OfTurn bool `json:"of_turn,omitempty"`
	// Checkout is that of a place, if a client knows of it.
	Checkout int `json:"checkout,omitempty"`
}

// place is how codex reaches a session.
type place struct {
	Environment string `json:"environment"`
	URL         string `json:"url"`
	Token       string `json:"token"`
	// Checkout is the number of checkouts that the session has begun with since the unit started. New means that no
	// client knows of the last one.
	Checkout int  `json:"checkout,omitempty"`
	New      bool `json:"new,omitempty"`
}

// refusal is the body of an answer with another status than 200.
type refusal struct {
	Code  turn.HandsCode `json:"code"`
	Words string         `json:"words"`
	Retry time.Duration  `json:"retry,omitempty"`
}

// noSession is the code of a question about a session that is not there.
const noSession turn.HandsCode = "session_not_found"

// status is the status of the answer with a code.
func status(code turn.HandsCode) int {
	switch code {
	case noSession:
		return http.StatusNotFound
	case codeInUse:
		return http.StatusConflict
	case codeTooLarge:
		return http.StatusRequestEntityTooLarge
	case turn.HandsFull, turn.HandsOfKeyFull:
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// refused is the error of a refusal.
func refused(r refusal) *turn.HandsError {
	return &turn.HandsError{Code: r.Code, Words: r.Words, Retry: r.Retry}
}

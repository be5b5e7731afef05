package workerhands

import (
	"net/http"
	"time"

	"codex-proxy/proxy/turn"
)

// The requests of the daemon to the unit.
const (
	enterPath   = "/enter"   // POST: the answer has a place, and the turn has the session until the connection closes
	changesPath = "/changes" // POST: the answer is a patch
	endPath     = "/end"     // POST: the session is closed
)

// question is the body of these requests.
type question struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	// OfTurn has the session end with the turn.
	OfTurn bool `json:"of_turn,omitempty"`
}

// place is how codex reaches a session.
type place struct {
	Environment string `json:"environment"`
	URL         string `json:"url"`
	Token       string `json:"token"`
	New         bool   `json:"new,omitempty"`
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
	case turn.HandsFull, turn.HandsOfKeyFull:
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// refused is the error of a refusal.
func refused(r refusal) *turn.HandsError {
	return &turn.HandsError{Code: r.Code, Words: r.Words, Retry: r.Retry}
}

package brokerstate

// Hidden is the use of a request that codex has made by itself, and that it does not count among the tokens of a turn.
type Hidden struct {
	Number  uint64   `json:"number"`            // of the requests of this broker, from 1 on
	Account string   `json:"account,omitempty"` // empty: the worker's own
	Threads []string `json:"threads"`           // of codex: the thread of the request, and those that it belongs to
	Tokens  Tokens   `json:"tokens"`
}

// MostHidden bounds the hidden uses of a state: the daemon reads it at least every 10 seconds.
const MostHidden = 64

// Hide adds a hidden use.
func (s *State) Hide(h Hidden) {
	if n := len(s.Hidden); n > 0 {
		h.Number = s.Hidden[n-1].Number
	}
	h.Number++
	if s.Hidden = append(s.Hidden, h); len(s.Hidden) > MostHidden {
		s.Hidden = s.Hidden[1:]
	}
}

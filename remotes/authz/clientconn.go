package authz

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"codex-proxy/codex/jsonscan"
)

// Session is one client while it is attached.
type Session struct {
	ID     uint64 // counts from 1
	Role   Role
	Peer   Peer
	Key    string // the API key of a client that comes over the network; its Peer is codex-proxy
	Client string // its name, such as codex-tui, and its version
	Since  time.Time

	// Owners and Viewers are attached now, this one included at its beginning, and no longer at its end.
	Owners, Viewers int

	// At the end of a session:
	Requests int64 // that went on to codex
	Refused  int64
	Dropped  int64 // messages that went nowhere: answers to requests that the client was not sent, among others
	Reason   string
}

// User is the name of the client's user, or of its API key.
func (s Session) User() string {
	if s.Key != "" {
		return "key " + s.Key
	}
	return s.Peer.User()
}

// Request is a request of a client that goes on to codex.
type Request struct {
	ID       string // as JSON; empty: a notification
	Method   string
	ThreadID string // of its parameters; empty if they have none
	TurnID   string
	Params   json.RawMessage // valid until Forwarding returns; nil if it has none
}

// workerConn is a connection; its client attaches by its first initialize.
type clientConn struct {
	Session
	proxy     *Proxy
	rejection string // why this client may not attach; empty: it may
	questions questions
	open      unanswered
	greeted   []byte // the id of an initialize that the proxy has answered: codex's answer does not go on
	attached  atomic.Bool

	requests, refusals, dropped atomic.Int64
}

// forwarding reports a request before it goes on. The calls of one session come one after another.
func (s *clientConn) forwarding(m message) {
	s.requests.Add(1)
	if m.method == "initialize" && !s.attached.Load() {
		info := member(m.params, "clientInfo")
		s.Client = textMember(info, "name") + " " + textMember(info, "version")
		s.attached.Store(true)
		s.proxy.attach(s)
	}
	if s.proxy.Forwarding != nil {
		s.proxy.Forwarding(s.Session, request(m))
	}
}

// request reads the address of a request, in one pass.
func request(m message) Request {
	r := Request{ID: string(m.id), Method: m.method, Params: m.params}
	members := jsonscan.Open(m.params)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		switch string(name) {
		case "threadId":
			_ = jsonscan.ScanText(value, &r.ThreadID) // codex refuses an id that is not a string
		case "turnId":
			_ = jsonscan.ScanText(value, &r.TurnID)
		}
	}
	return r
}

func (s *clientConn) refused(method string) {
	s.refusals.Add(1)
	s.proxy.Logger.Debug("refused a request of a client", "method", method, "session", s.ID, "role", s.Role.String())
}

// messageLimit bounds the messages of the client. No request of a viewer is large: viewers have no place among the
// large messages, for which owners would have to wait.
func (s *clientConn) messageLimit() int64 {
	if s.Role == Viewer || s.rejection != "" {
		return smallMessage
	}
	return messageLimit
}

// end is the Session at its end.
func (s *clientConn) end(reason string) Session {
	e := s.Session
	e.Requests, e.Refused, e.Dropped = s.requests.Load(), s.refusals.Load(), s.dropped.Load()
	e.Reason = reason
	return e
}

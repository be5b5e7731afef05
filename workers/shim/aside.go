package shim

import (
	"context"
	"net"
	"strings"
	"time"

	"codex-proxy/workers/annotations"
	"codex-proxy/workers/broker"
	"codex-proxy/workers/login"
)

// asidePrefix begins the first line of a connection that is for this process, and not for codex.
const asidePrefix = login.Prefix

// intercept serves a connection of the proxy by its first line.
func (s *Shim) intercept(conn net.Conn) {
	if s.answersLogin(conn) {
		return
	}
	s.requests.read(conn)
}

// answersLogin answers a question for the login. It returns false for a connection of annotations, after it
// has read the first line.
func (s *Shim) answersLogin(conn net.Conn) bool {
	line, err := login.ReadQuestion(conn)
	if err != nil {
		return true
	}
	if line == annotations.Greeting {
		_ = conn.SetReadDeadline(time.Time{})
		return false
	}
	if !strings.HasPrefix(line, broker.Question) || s.tokens == nil {
		return true // a question of another version
	}
	s.tokens.AnswerLent(context.Background(), conn, line)
	return true
}

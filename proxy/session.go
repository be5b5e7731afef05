package proxy

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/turn"
)

// sessionHeader names, in a request, the session in which a worker with hands executes the commands of the turn, and in
// an answer the session of the turn. Another API key with the same name has another session.
const sessionHeader = "X-Codex-Session"

// newSessionHeader is in the first answer of a session: its workspace is a new checkout.
const newSessionHeader = "X-Codex-Session-New"

// sessionName matches the names of sessions, such as a UUID.
var sessionName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// chooseSession restricts a request that names a session to the one worker that has it. The error is an *openai.Error.
func (s *Server) chooseSession(r *http.Request, x *Exchange) error {
	values, named := r.Header[sessionHeader]
	if !named {
		return nil
	}
	if len(values) != 1 || !sessionName.MatchString(values[0]) {
		return openai.Invalid("invalid_session", sessionHeader, "a session has one name of 1 to 128 letters, "+
			"digits, ., _ or -, a letter or digit first")
	}
	worker, err := s.HomeOf(x, values[0])
	if err != nil {
		return err
	}
	x.Session, x.Accounts = values[0], []string{worker}
	return nil
}

// HomeOf is the worker that has a session of the key of an exchange, whether it has begun or not. The error is an
// *openai.Error.
func (s *Server) HomeOf(x *Exchange, session string) (worker string, err error) {
	workers := withHands(x.Accounts, s.Settings)
	if len(workers) == 0 {
		return "", openai.Invalid("no_hands", sessionHeader, "no worker for this request has hands, which a session "+
			"needs: leave "+sessionHeader+" out, or have the operator add [hands] to a worker's file")
	}
	return homeOf(x.Key.Name, session, workers), nil
}

// withHands are the workers with hands among the accounts that may serve; nil: all may.
func withHands(accounts []string, s Settings) (workers []string) {
	if accounts == nil {
		accounts = s.Accounts
	}
	for _, name := range accounts {
		if s.Hands != nil && s.Hands(name) {
			workers = append(workers, name)
		}
	}
	return workers
}

// homeOf is the worker of a session: always the same one of the same workers (rendezvous hashing), so that no process
// has to remember it.
func homeOf(key, session string, workers []string) string {
	weight := func(worker string) string {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", key, session, worker))
		return string(sum[:])
	}
	return slices.MaxFunc(workers, func(a, b string) int {
		if weight(a) < weight(b) {
			return -1
		}
		return 1
	})
}

// markSession reports the session of the turn.
func (x *Exchange) markSession(h http.Header) {
	if x.Turn.Session == "" {
		return
	}
	h.Set(sessionHeader, x.Turn.Session)
	if x.Turn.NewSession {
		h.Set(newSessionHeader, "true")
	}
}

// handsError is the answer to a turn that gets no session.
func handsError(e *turn.HandsError) *openai.Error {
	if e.Code == turn.HandsUnavailable {
		return openai.Unavailable(string(e.Code), e.Words, e.Retry)
	}
	return openai.TooMany(openai.TypeRateLimit, string(e.Code), e.Words, e.Retry)
}

package authz

import (
	"encoding/json"
	"fmt"
	"slices"
)

// verdict is the decision about a message of a client.
type verdict struct {
	pass    []byte // these bytes go to codex; nil: none
	refusal string // the words of the error that answers a request; empty: no answer
	unknown bool   // no rule has the method: a refusal has other words, which Proxy.unknown has
}

// authorize decides on a request or a notification. raw are its bytes. reads has the parameters of the requests without
// a rule that owners may send, by their methods.
func (r Role) authorize(m message, raw []byte, reads map[string][]string) verdict {
	if m.id == nil {
		if slices.Contains(notifications, m.method) {
			return verdict{pass: raw}
		}
		return verdict{}
	}
	known, ok := rules[m.method]
	switch {
	case !ok && r == Owner && onlyReads(m, reads):
		return verdict{pass: raw}
	case !ok:
		return verdict{unknown: true}
	case known.access == refused:
		return refuse("%s is refused: %s", m.method, known.why)
	case known.access == owners && r == Viewer:
		return refuse("%s is refused: this connection only reads (attach without --read-only)", m.method)
	case r == Viewer && m.method == "thread/resume":
		return viewersResume(m)
	}
	if name := override(m); name != "" {
		return refuse("%s is refused: it sets %q, which the remote's own file sets "+
			"(a setting of this client, by -c or its config.toml)", m.method, name)
	}
	return verdict{pass: raw}
}

// authorize decides on a request or a notification of this client.
func (s *clientConn) authorize(m message, raw []byte) verdict {
	if !s.proxy.Open {
		return s.Role.authorize(m, raw, s.proxy.Reads)
	}
	if s.proxy.Edit != nil {
		if params := s.proxy.Edit(s.Session, request(m)); params != nil {
			return verdict{pass: edited(m, params)}
		}
	}
	return verdict{pass: raw}
}

// edited is a request with other parameters.
func edited(m message, params []byte) []byte {
	method, _ := json.Marshal(m.method) // a string has no errors
	return fmt.Appendf(nil, `{"id":%s,"method":%s,"params":%s}`, m.id, method, params)
}

func refuse(format string, args ...any) verdict {
	return verdict{refusal: fmt.Sprintf(format, args...)}
}

// viewersResume lets a viewer watch a thread as it is: of its parameters only those pass that choose the view.
func viewersResume(m message) verdict {
	pass := fmt.Appendf(nil, `{"id":%s,"method":"thread/resume","params":{`, m.id)
	comma := ""
	for _, name := range []string{"threadId", "excludeTurns", "initialTurnsPage"} {
		if value := member(m.params, name); value != nil {
			pass = fmt.Appendf(pass, `%s%q:%s`, comma, name, value)
			comma = ","
		}
	}
	return verdict{pass: append(pass, "}}"...)}
}

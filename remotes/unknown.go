package remotes

import (
	"slices"

	"codex-proxy/internal/lazyregexp"
)

// unknownLimit bounds the requests that a remote names. Those of viewers fill no more than half of it.
const unknownLimit = 32

// requestName is the form of codex's names. Other texts are not logged: a client may send any.
var requestName = lazyregexp.New(`^[A-Za-z]\w{0,63}(/\w{1,64}){0,7}$`)

// Unknown records a request of a client that no rule of this codex-proxy is on, and logs it once. It returns the
// version of the codex that runs; empty if it is not known.
func (m *Manager) Unknown(method string, viewer bool) (codex string) {
	limit, isNew := unknownLimit, false
	if viewer {
		limit /= 2
	}
	m.update(func(s *state) {
		codex = s.version
		isNew = requestName.MatchString(method) && len(s.unknown) < limit && !slices.Contains(s.unknown, method)
		if isNew {
			s.unknown = append(s.unknown, method)
		}
	})
	if isNew {
		m.opts.Logger.Warn("a client sent a request that is not known here", "remote", m.opts.Name, "method", method,
			"codex", codex)
	}
	return codex
}

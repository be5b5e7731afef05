package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"codex-proxy/proxy/appserver"
)

// Reasoning is encrypted for the account that made it: the model endpoint refuses
// a conversation with anybody else's. A client that takes it back to us brings
// the mark of its worker along, in front of what it cannot read anyway.

// markOf tells workers apart, without their names.
func markOf(worker string) string {
	sum := sha256.Sum256([]byte(worker))
	return "worker-" + hex.EncodeToString(sum[:6]) + ":"
}

// unmark takes the mark off; there is none on what comes from elsewhere.
func unmark(encrypted string) (mark, rest string) {
	n := len(markOf(""))
	if len(encrypted) < n || !strings.HasPrefix(encrypted, "worker-") || encrypted[n-1] != ':' {
		return "", encrypted
	}
	return encrypted[:n], encrypted[n:]
}

// origins are the marks of the reasoning in a history.
type origins struct {
	of   map[string]string // by the injected item
	last string
}

func (o *origins) add(item appserver.Item, mark string) {
	if mark == "" {
		return
	}
	if o.of == nil {
		o.of = map[string]string{}
	}
	o.of[string(item)], o.last = mark, mark
}

// fit leaves out reasoning that another worker has made.
func (o *origins) fit(worker string, items []appserver.Item) []appserver.Item {
	mark := markOf(worker)
	fit := make([]appserver.Item, 0, len(items))
	for _, item := range items {
		if from := o.of[string(item)]; from == "" || from == mark {
			fit = append(fit, item)
		}
	}
	return fit
}

// prefers is the worker that made the last of the reasoning, if there still is
// one of that name.
func (s *Server) prefers(o *origins) string {
	if o.last == "" {
		return ""
	}
	for _, w := range s.Pool.Snapshot().Workers {
		if markOf(w.Name) == o.last {
			return w.Name
		}
	}
	return ""
}

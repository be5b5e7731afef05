package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"codex-proxy/proxy/appserver/history"
)

// Reasoning is encrypted for the account that made it: the model endpoint refuses a
// conversation with reasoning of another account. A mark of the worker stands in front of
// the encrypted text, which a client sends back as it is.

// markOf identifies a worker without its name.
func markOf(worker string) string {
	sum := sha256.Sum256([]byte(worker))
	return "worker-" + hex.EncodeToString(sum[:6]) + ":"
}

// unmark takes the mark off; the mark is empty if the reasoning comes from elsewhere.
func unmark(encrypted string) (mark, rest string) {
	n := len(markOf(""))
	if len(encrypted) < n || !strings.HasPrefix(encrypted, "worker-") || encrypted[n-1] != ':' {
		return "", encrypted
	}
	return encrypted[:n], encrypted[n:]
}

// owners are the workers that made the reasoning in a history.
type owners struct {
	of   map[string]string // item as it is injected → mark of the worker
	last string            // mark
}

func (o *owners) add(item history.Item, mark string) {
	if mark == "" {
		return
	}
	if o.of == nil {
		o.of = map[string]string{}
	}
	o.of[string(item)], o.last = mark, mark
}

// fit leaves out reasoning that another worker made.
func (o *owners) fit(worker string, items []history.Item) []history.Item {
	mark := markOf(worker)
	fit := make([]history.Item, 0, len(items))
	for _, item := range items {
		if from := o.of[string(item)]; from == "" || from == mark {
			fit = append(fit, item)
		}
	}
	return fit
}

// prefers returns the worker that made the last of the reasoning; empty if there is none
// among the workers of those names.
func (o *owners) prefers(workers []string) string {
	if o.last == "" {
		return ""
	}
	for _, name := range workers {
		if markOf(name) == o.last {
			return name
		}
	}
	return ""
}

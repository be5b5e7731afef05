package responses

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"codex-proxy/proxy/appserver/history"
)

// Reasoning is encrypted for the account that made it: the model endpoint refuses a
// conversation with reasoning of another account. A mark of the worker stands in front of
// the encrypted text, which a client sends back as it is; so its maker is known after a
// restart, too. Reasoning without a mark comes from elsewhere, from an account that is not
// known: it is left out where the next turn may run on another account than this one.

// markOf identifies a worker without its name.
func markOf(worker string) string {
	sum := sha256.Sum256([]byte(worker))
	return "worker-" + hex.EncodeToString(sum[:6]) + ":"
}

// fitting are the marks of the reasoning that a worker can read. The empty mark stands for
// reasoning from elsewhere.
func (e *Endpoint) fitting(worker string) (marks []string) {
	same := e.Turns.SameAccount(worker)
	for _, name := range same {
		marks = append(marks, markOf(name))
	}
	if !e.Turns.Rotates() || len(same) == len(e.Turns.Pool.Names()) {
		marks = append(marks, "")
	}
	return marks
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
	of   map[string]string // item as it is injected → mark of the worker, or empty
	last string            // mark, the last one that is not empty
}

func (o *owners) add(item history.Item, mark string) {
	if o.of == nil {
		o.of = map[string]string{}
	}
	o.of[string(item)], o.last = mark, cmp.Or(mark, o.last)
}

// fit leaves out the reasoning that has none of these marks.
func (o *owners) fit(marks []string, items []history.Item) []history.Item {
	fit := make([]history.Item, 0, len(items))
	for _, item := range items {
		if from, reasoning := o.of[string(item)]; !reasoning || slices.Contains(marks, from) {
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

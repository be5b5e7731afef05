package operators

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/daemon/recent"
	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// Event is one line of GET /v1/watch: the parts that were asked for and have changed since the line before.
type Event struct {
	// Whole means that history and requests have all that there is. Otherwise they have only the points and requests
	// that are new, or have changed.
	Whole        bool                `json:"whole,omitempty"`
	Status       *probes.Report      `json:"status,omitempty"`
	Accounts     *control.Accounts   `json:"accounts,omitempty"`
	Keys         *control.Keys       `json:"keys,omitempty"`
	Remotes      []probes.Remote     `json:"remotes,omitzero"`
	Dependencies []probes.Dependency `json:"dependencies,omitzero"`
	History      *recent.History     `json:"history,omitempty"`
	Requests     []recent.Request    `json:"requests,omitzero"`
}

// Parts are the parts of an Event, by which GET /v1/watch?of= names them.
var Parts = []string{"status", "accounts", "keys", "remotes", "dependencies", "history", "requests"}

// parseParts returns the parts in a list with commas; without a list all.
func parseParts(list string) ([]string, error) {
	if list == "" {
		return Parts, nil
	}
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if !slices.Contains(Parts, part) {
			return nil, fmt.Errorf("there is no part %q to watch; there are %s", part, strings.Join(Parts, ", "))
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// reader is one watcher: the parts that it wants, and those that it has.
type reader struct {
	parts  []string
	sent   map[string][]byte // the members that were sent last
	cursor recent.Cursor
}

// line returns the members that have changed since the last call, as one object; nil if there are none.
func (r *reader) line(s *stream) ([]byte, error) {
	var members [][]byte
	for _, e := range s.events(r) {
		name, member, err := memberOf(e)
		if err != nil {
			return nil, err
		}
		if member == nil || bytes.Equal(r.sent[name], member) {
			continue
		}
		r.sent[name] = member
		members = append(members, member)
	}
	if len(members) == 0 {
		return nil, nil
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}\n")), nil
}

// memberOf returns the members of an event without its braces, and the name of the first one; nil if it has none.
func memberOf(e Event) (name string, member []byte, err error) {
	raw, err := json.Marshal(e)
	if err != nil || len(raw) <= len("{}") {
		return "", nil, err
	}
	name, _, _ = strings.Cut(string(raw), ":")
	return name, raw[1 : len(raw)-1], nil
}

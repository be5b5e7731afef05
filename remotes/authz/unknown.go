package authz

import (
	"fmt"
	"slices"
	"strings"

	"codex-proxy/codex/jsonscan"
	"codex-proxy/codex/versions"
)

// family is the name of a method without its last part, which is its verb.
func family(method string) string { return method[:max(0, strings.LastIndex(method, "/"))] }

// families has the families of the rules.
type families struct {
	closed map[string]bool // with a request that no client may send, such as account with account/logout
	roots  map[string]bool // first parts of requests that owners may send
}

func familiesOf(rules map[string]rule) families {
	f := families{map[string]bool{}, map[string]bool{}}
	for method, r := range rules {
		if root, _, _ := strings.Cut(method, "/"); r.access == refused {
			f.closed[family(method)] = true
		} else {
			f.roots[root] = true
		}
	}
	return f
}

var known = familiesOf(rules)

// open reports whether no family that the method is of is closed, and its first part is known.
func (f families) open(method string) bool {
	root, _, _ := strings.Cut(method, "/")
	for of := family(method); of != ""; of = family(of) {
		if f.closed[of] {
			return false
		}
	}
	return f.roots[root]
}

// onlyReads reports whether a request without a rule may pass for an owner: the schema of the codex that runs shows
// that it only reads, it has the parameters of that schema alone, and it is of an open family. In an open family
// owners may send all that is known, so one that did more than its schema shows would do no more than they may.
func onlyReads(m message, reads map[string][]string) bool {
	parameters, is := reads[m.method]
	if !is || !known.open(m.method) {
		return false
	}
	members := jsonscan.Open(m.params)
	for name, _, ok := members.Next(); ok; name, _, ok = members.Next() {
		if !slices.Contains(parameters, string(name)) {
			return false
		}
	}
	return true
}

// unknown reports a request without a rule, and returns the text of its refusal: the versions that know it, the remedy.
func (p *Proxy) unknown(s Session, method string) (words string) {
	codex := ""
	if p.Unknown != nil {
		codex = p.Unknown(s, method)
	}
	words = fmt.Sprintf("%.200q is refused: codex-proxy %s knows the requests of codex 0.%d to 0.%d, and this is none "+
		"of them", method, p.Version, versions.OldestForRemotes, versions.Tested)
	if versions.Standing(codex) == "" {
		return words + "; a client that is newer than the codex of this remote may send it: use the remote's version " +
			codex
	}
	words += fmt.Sprintf("; this remote runs codex %s: install a codex-proxy that was tested with it, or codex 0.%d",
		codex, versions.Tested)
	switch {
	case s.Role == Viewer:
	case p.Reads == nil:
		words += `, or let requests that only read pass by unknown_methods = "read" in the file of the remote`
	default:
		words += `; unknown_methods = "read" lets only requests pass whose schema shows that they read`
	}
	return words
}

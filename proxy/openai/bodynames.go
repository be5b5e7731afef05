package openai

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// checkDuplicateNames refuses a body in which an object has two members of the same name. The checks here would see the
// last one, while codex reads both: RFC 8259, section 4, does not define which one counts. The body must be JSON.
func checkDuplicateNames(body []byte) error {
	n := nameScan{}
	for i := 0; i < len(body); {
		switch body[i] {
		case '{', '[':
			n.open = append(n.open, scope{object: body[i] == '{', named: body[i] == '{', first: len(n.names)})
		case '}', ']':
			n.close()
		case ',':
			n.top().named = n.top().object
		case '"':
			end := i + stringEnd(body[i:])
			if n.top().named && !n.add(body[i:end]) {
				return duplicateName(body, end)
			}
			i = end
			continue
		}
		i++
	}
	return nil
}

// fewNames is up to how many names are compared with each other, rather than looked up in a map.
const fewNames = 16

// nameScan holds the names of the objects that have not ended yet.
type nameScan struct {
	names [][]byte
	open  []scope
}

// scope is an object or a list.
type scope struct {
	object, named bool // named: the next string is a name
	first         int  // index of its first name
	seen          map[string]bool
}

// top is the innermost scope; a string that is the whole body is in none.
func (n *nameScan) top() *scope {
	if len(n.open) == 0 {
		return &scope{}
	}
	return &n.open[len(n.open)-1]
}

func (n *nameScan) close() {
	n.names = n.names[:n.top().first]
	n.open = n.open[:len(n.open)-1]
}

// add adds the next name, and reports whether it is new.
func (n *nameScan) add(quoted []byte) bool {
	top, name := n.top(), quoted[1:len(quoted)-1]
	top.named = false
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted) // no name of a decoded body fails
	}
	before := n.names[top.first:]
	if len(before) < fewNames {
		n.names = append(n.names, name)
		for _, other := range before {
			if bytes.Equal(name, other) {
				return false
			}
		}
		return true
	}
	if top.seen == nil {
		top.seen = make(map[string]bool, 2*fewNames)
		for _, other := range before {
			top.seen[string(other)] = true
		}
	}
	known := top.seen[string(name)]
	top.seen[string(name)] = true
	return !known
}

// duplicateName is the error of the name that ends at end.
func duplicateName(body []byte, end int) *Error {
	from := jsontext.NewDecoder(bytes.NewBuffer(body), allowDuplicates)
	for from.InputOffset() < int64(end) {
		if _, err := from.ReadToken(); err != nil {
			break // not possible: the body is JSON
		}
	}
	return duplicateAt(path(from.StackPointer()))
}

func duplicateAt(at string) *Error {
	at = clipPath(at)
	return Invalid("duplicate_name", at, fmt.Sprintf("%s: an object must not have two members of the same name", at))
}

// stringEnd is the length of the string with which b begins; without an end, of all of b.
func stringEnd(b []byte) int {
	for n := 1; ; n++ {
		quote := bytes.IndexByte(b[n:], '"')
		if quote < 0 {
			return len(b)
		}
		n += quote
		escapes := 0
		for b[n-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return n + 1
		}
	}
}

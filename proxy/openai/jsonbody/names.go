package jsonbody

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// CheckDuplicateNames refuses a body in which an object has two members of the same name. The checks here would see the
// last one, while codex reads both: RFC 8259, section 4, does not define which one counts. The body must be JSON.
func CheckDuplicateNames(body []byte) error {
	var few [4 * fewNames][]byte // holds the names of most bodies without an allocation
	var shallow [fewNames]scope
	names, open := few[:0], shallow[:0]
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			open = append(open, scope{object: body[i] == '{', named: body[i] == '{', first: len(names)})
		case '}', ']':
			names = names[:open[len(open)-1].first]
			open = open[:len(open)-1]
		case ',':
			top := &open[len(open)-1]
			top.named = top.object
		case '"':
			end := i + stringEnd(body[i:])
			if len(open) > 0 && open[len(open)-1].named {
				top, name := &open[len(open)-1], nameIn(body[i:end])
				if top.has(names[top.first:], name) {
					return duplicateName(body, end)
				}
				if top.seen == nil {
					names = append(names, name)
				}
			}
			i = end - 1
		}
	}
	return nil
}

// fewNames is up to how many names are compared with each other, rather than looked up in a map.
const fewNames = 16

// scope is an object or a list that has not ended yet.
type scope struct {
	object, named bool // named: the next string is a name
	first         int  // index of its first name
	seen          map[string]bool
}

// has reports whether the name is one of those before it, and makes the next string a value.
func (s *scope) has(before [][]byte, name []byte) bool {
	s.named = false
	if len(before) < fewNames {
		return slices.ContainsFunc(before, func(other []byte) bool { return bytes.Equal(name, other) })
	}
	if s.seen == nil {
		s.seen = make(map[string]bool, 2*fewNames)
		for _, other := range before {
			s.seen[string(other)] = true
		}
	}
	known := s.seen[string(name)]
	s.seen[string(name)] = true
	return known
}

// nameIn is the name in quotes.
func nameIn(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // no name of a decoded body fails
	return name
}

// duplicateName is the error of the name that ends at end.
func duplicateName(body []byte, end int) *openai.Error {
	from := jsontext.NewDecoder(bytes.NewBuffer(body), AllowDuplicates)
	for from.InputOffset() < int64(end) {
		if _, err := from.ReadToken(); err != nil {
			break // not possible: the body is JSON
		}
	}
	return DuplicateAt(Path(from.StackPointer()))
}

// DuplicateAt is the error of an object with two members of the same name; at is the path of the second one.
func DuplicateAt(at string) *openai.Error {
	at = ClipPath(at)
	return openai.Invalid("duplicate_name", at, fmt.Sprintf("%s: an object must not have two members of the same name",
		at))
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

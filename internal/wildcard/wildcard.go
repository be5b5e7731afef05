// Package wildcard matches names with patterns: a pattern has one *, which stands for any
// characters, or for none.
package wildcard

import (
	"cmp"
	"strings"
)

// Is reports whether a name is a pattern.
func Is(name string) bool { return strings.Contains(name, "*") }

// Match reports whether a pattern matches a name. A pattern without a * matches itself.
func Match(pattern, name string) bool {
	before, after, found := strings.Cut(pattern, "*")
	if !found {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// Compare orders patterns, the more precise ones first: by the number of their characters,
// then by those before the *, then by the alphabet.
func Compare(a, b string) int {
	return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(strings.Index(b, "*"), strings.Index(a, "*")),
		cmp.Compare(a, b))
}

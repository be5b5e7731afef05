package dependencyconfig

import (
	"fmt"
	"strings"
)

// placeholders are the words in braces that a text may have.
type placeholders map[string]string

func placeholdersOf(name string) placeholders {
	return placeholders{"state": StateDir(name), "runtime": RuntimeDir(name),
		"credentials": CredentialsDir(name), "name": name}
}

// fill replaces the placeholders in text. "{{" stands for a brace.
func (p placeholders) fill(text string) (string, error) {
	var filled strings.Builder
	for {
		before, after, found := strings.Cut(text, "{")
		filled.WriteString(before)
		if !found {
			return filled.String(), nil
		}
		if rest, doubled := strings.CutPrefix(after, "{"); doubled {
			filled.WriteByte('{')
			text = rest
			continue
		}
		word, rest, closed := strings.Cut(after, "}")
		value, known := p[word]
		if !closed || !known {
			return "", fmt.Errorf("%q is not a placeholder: use {state}, {runtime}, {credentials} or {name}, "+
				`or write "{{" for a brace`, "{"+shortened(word, closed))
		}
		filled.WriteString(value)
		text = rest
	}
}

// shortened is the part of a word after a brace that an error shows.
func shortened(word string, closed bool) string {
	const most = 20
	switch {
	case len(word) > most:
		return word[:most] + "…"
	case closed:
		return word + "}"
	}
	return word
}

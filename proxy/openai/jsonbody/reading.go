package jsonbody

import (
	"fmt"
	"strings"
)

// Reading is how the bodies of requests are read. The zero value refuses unknown parameters.
type Reading struct {
	// IgnoreUnknown ignores the parameters that are in no table, instead of refusing them.
	IgnoreUnknown bool
	// Model is the model in the request's path, and overrides the model of the body; empty: the path has no model.
	Model string
}

// ModelOf returns the name of the model for a request that has inBody in its body.
func (r Reading) ModelOf(inBody string) string {
	if r.Model != "" {
		return r.Model
	}
	return inBody
}

// maxUnknown bounds the unknown parameters that are named.
const maxUnknown = 32

// UnknownParams are the names of unknown parameters that were ignored, for a header.
type UnknownParams struct {
	names []string
	more  int
}

// Add adds a name, as far as the bound allows.
func (u *UnknownParams) Add(name string) {
	if len(u.names) == maxUnknown {
		u.more++
		return
	}
	u.names = append(u.names, headerWord(name))
}

// List are the names, and how many others there are.
func (u *UnknownParams) List() []string {
	if u.more > 0 {
		return append(u.names, fmt.Sprintf("(%d more)", u.more))
	}
	return u.names
}

// headerWord is a client's word as a header can have it in a list: without the bytes that would end the word, the list
// or the header.
func headerWord(word string) string {
	const most = 64
	more := ""
	if len(word) > most {
		word, more = word[:most], "..."
	}
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' || c == ',' {
			return '?'
		}
		return c
	}, word) + more
}

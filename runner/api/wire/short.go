package wire

import (
	"slices"
	"strings"
)

// Short is a list of at most room bytes, of which the last text may be cut. It keeps no longer text in memory.
func Short(list []string, room int) []string {
	for n, text := range list {
		if len(text) >= room {
			return append(slices.Clone(list[:n]), strings.ToValidUTF8(text[:room], "")+"…")
		}
		room -= len(text) + 1
	}
	return list
}

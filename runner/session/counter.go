package session

import (
	"strconv"
	"strings"
)

// Counter returns a number from a file of a cgroup (Documentation/admin-guide/cgroup-v2.rst): the number in the line
// that begins with key, or in the whole file without a key. It is 0 without such a line.
func Counter(text, key string) uint64 {
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found {
			name, value = "", name
		}
		if name == key {
			n, _ := strconv.ParseUint(value, 10, 64)
			return n
		}
	}
	return 0
}

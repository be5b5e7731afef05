package strict

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKeysAreFoundOnTheirLines(t *testing.T) {
	lines := LinesOf([]byte("a = 1\n[b.c]\nd = { e = 1, f = 2 }\n[[g]]\nh = 1\n\"i.j\" = 2\n"))
	for key, line := range map[string]int{"a": 1, "b.c": 2, "b": 2, "b.c.d": 3, "b.c.d.f": 3, "b.c.d.zz": 3, "g.h": 5} {
		got, ok := lines.Find(key)
		assert.True(t, ok, key)
		assert.Equal(t, line, got, key)
	}
	assert.True(t, lines.Has("b.c.d.f"))
	assert.False(t, lines.Has("b"))
	_, ok := lines.Find("x")
	assert.False(t, ok)
	assert.Equal(t, "g.h", lines.KeyAt(5))
}

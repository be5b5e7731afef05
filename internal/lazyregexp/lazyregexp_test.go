package lazyregexp

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRegexp(t *testing.T) {
	digits := New(`(\d)(\d)`)
	assert.True(t, digits.MatchString("a42"))
	assert.Equal(t, []string{"42", "4", "2"}, digits.FindStringSubmatch("a42"))
	assert.Equal(t, "a24", digits.ReplaceAllString("a42", "$2$1"))
	assert.Equal(t, "a(42)", digits.ReplaceAllStringFunc("a42", func(s string) string { return "(" + s + ")" }))
}

// A bad pattern fails in the tests of its package.
func TestBadPattern(t *testing.T) { assert.Panics(t, func() { New(`(`) }) }

package auth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A key with a limit of a newer version is refused alone, and a word that may be a key is not repeated.
func TestKeysOfANewerVersion(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	text := ClosedLine() + "\nalice " + hash + " concurrent=2 # hers\nbob " + hash + " later=1\nsk-codex-x\nalice " + hash + "\n"
	usable, refused := Usable(text)
	assert.Equal(t, ClosedLine()+"\nalice "+hash+" concurrent=2 # hers\n", usable)
	assert.Equal(t, []string{"bob", "(a line that has no key)", "alice"}, refused)
	keys := &Keys{}
	assert.NoError(t, keys.Replace(usable))
	assert.Equal(t, []string{"alice"}, keys.Names())
}

package apikeys

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/auth"
)

// A host adds its own keys. Of the same key the limits in the database stay, and another key of the same name clashes.
func TestMissing(t *testing.T) {
	parse := func(text string) *auth.Keys {
		keys, err := auth.Parse(strings.NewReader(text))
		require.NoError(t, err)
		return keys
	}
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	there := parse("same " + a + " concurrent=1\nother " + a + "\n")
	lines, clashes := missing(parse("same "+a+" concurrent=2\nother "+b+"\nnew "+b+" concurrent=3\n"), there)
	assert.Equal(t, []string{"new " + b + " concurrent=3"}, lines)
	assert.Equal(t, []string{"other"}, clashes)

	// Without --file the remedy would revoke the key that the clients of the other hosts have.
	assert.ErrorContains(t, File("/etc/codex-proxy/api-keys").clash([]string{"first", "other"}),
		"codex-proxy keys revoke first --file=/etc/codex-proxy/api-keys")
}

package auth

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeys(t *testing.T) {
	key, line, err := Generate("ci")
	require.NoError(t, err)
	other, _, err := Generate("ci")
	require.NoError(t, err)
	assert.NotEqual(t, key, other)
	assert.NotContains(t, line, key)

	keys, err := Parse(strings.NewReader("# my keys\n\n" + line + " # for the build\n"))
	require.NoError(t, err)
	assert.Equal(t, []string{"ci"}, keys.Names())
	assert.False(t, keys.Empty())

	for _, tc := range []struct {
		header string
		ok     bool
	}{
		{"Bearer " + key, true}, {"bearer  " + key + " ", true},
		{"", false}, {"Bearer", false}, {"Bearer ", false}, {key, false}, {"Basic " + key, false},
		{"Bearer " + other, false}, {"Bearer " + key + "x", false}, {"Bearer " + strings.Fields(line)[1], false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", tc.header)
		name, ok := keys.Check(r)
		assert.Equal(t, tc.ok, ok, tc.header)
		assert.Equal(t, tc.ok, name == "ci", tc.header)
	}
}

func TestNoKeys(t *testing.T) {
	keys, err := Parse(strings.NewReader("# none\n"))
	require.NoError(t, err)
	assert.True(t, keys.Empty())
	assert.True(t, (*Keys)(nil).Empty())
}

func TestParseErrorsNameTheLineAndKeepTheSecret(t *testing.T) {
	_, good, err := Generate("a")
	require.NoError(t, err)
	for name, file := range map[string]string{
		"a key instead of its hash": "\nme sk-codex-secret",
		"one word":                  "\nsk-codex-secret",
		"three words":               "\na b sk-codex-secret",
		"a bad name":                "\na/b " + strings.Fields(good)[1],
		"twice":                     good + "\n" + good,
	} {
		_, err := Parse(strings.NewReader(file))
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), "line 2", name)
		assert.NotContains(t, err.Error(), "secret", name)
	}
}

func TestGenerateRefusesABadName(t *testing.T) {
	for _, name := range []string{"", "a b", "ü", strings.Repeat("x", 65)} {
		_, _, err := Generate(name)
		assert.Error(t, err, name)
	}
}

package wildcard

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"claude-*", "claude-opus-4-5", true},
		{"claude-*", "claude-", true},
		{"claude-*", "claude", false},
		{"claude-*", "a-claude-b", false},
		{"*-mini", "gpt-5-mini", true},
		{"*-mini", "gpt-5-minimal", false},
		{"a*b", "ab", true},
		{"a*b", "axxb", true},
		{"ab*ba", "aba", false},
		{"*", "", true},
		{"*", "anything", true},
		{"claude-*", "claude-*", true},
		{"gpt-5", "gpt-5", true},
		{"gpt-5", "gpt-5-mini", false},
	} {
		assert.Equal(t, tc.want, Match(tc.pattern, tc.name), "%s %s", tc.pattern, tc.name)
	}
	assert.True(t, Is("a*"))
	assert.False(t, Is("a"))
}

func TestCompare(t *testing.T) {
	want := []string{"claude-haiku-*", "claude-opus-*", "claude-*-4", "*-claude-4", "claude-*", "*"}
	sorted := slices.SortedFunc(slices.Values([]string{
		"*", "claude-*", "*-claude-4", "claude-*-4", "claude-opus-*", "claude-haiku-*"}), Compare)
	assert.Equal(t, want, sorted)
}

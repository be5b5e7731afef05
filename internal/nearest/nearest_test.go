package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTo(t *testing.T) {
	names := []string{"gpt-5", "gpt-5-mini", "gpt-5.1", "codex-mini", "o3"}
	for word, want := range map[string][]string{
		"gpt5": {"gpt-5"}, "gtp-5": {"gpt-5"}, "gpt-5.2": {"gpt-5.1", "gpt-5"}, "gpt-5-mni": {"gpt-5-mini"},
		"claude": nil, "": nil,
		strings.Repeat("x", 129): nil,
	} {
		assert.Equal(t, want, To(word, names, 2), word)
	}
	assert.Len(t, To("gpt-5.2", names, 1), 1)
}

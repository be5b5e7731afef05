package units

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDependencyNames(t *testing.T) {
	for _, good := range []string{"a", "temporal", "7z", "my-db", strings.Repeat("a", 28)} {
		assert.NoError(t, ValidDependencyName(good))
		assert.LessOrEqual(t, len(DependencyUser(good)), 31)
	}
	for _, bad := range []string{"", "-a", "A", "a_b", "a.b", "a/b", "a b", strings.Repeat("a", 29)} {
		assert.Error(t, ValidDependencyName(bad))
	}
	assert.Equal(t, "codex-dependency@temporal.service", Dependency("temporal"))
}

package units_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Units of two kinds whose instances have the same name run as two users: systemd makes one user of each name, and both
// packages may be on one machine. The command of a remote's [notify] runs as its remote on purpose.
func TestDynamicUsersAreApart(t *testing.T) {
	user := regexp.MustCompile(`(?m)^User=(.*%i)$`)
	files, err := filepath.Glob("../packaging/systemd/*@.service")
	require.NoError(t, err)
	kinds := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		kind := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), "@.service"), "-notify")
		for _, match := range user.FindAllSubmatch(text, -1) {
			name := string(match[1])
			if other, taken := kinds[name]; taken {
				assert.Equal(t, other, kind, "both run as %s", name)
			}
			kinds[name] = kind
		}
	}
	assert.GreaterOrEqual(t, len(kinds), 5, "%v", kinds)
}

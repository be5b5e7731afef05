package sandbox

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A plan has PATH as the sandbox will have it, and the reason why a toolchain will not be there.
func TestPlanned(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{"/.cargo/bin", "/tools/bin"} {
		require.NoError(t, os.MkdirAll(home+dir, 0o755))
	}
	s := Settings{Path: []string{"/first"}, Toolchains: []string{home + "/tools", home + "/gone"}}
	p := s.Planned([]string{"/usr/bin"}, home)
	assert.Equal(t, "/first:/toolchains"+home+"/.cargo/bin", p.Path[:len("/first:/toolchains"+home+"/.cargo/bin")])
	assert.Contains(t, p.Path, ":/usr/bin")
	require.Len(t, p.Toolchains, 3)
	assert.Contains(t, p.Toolchains[1], "not shown: "+home+"/gone is not there")
	assert.Equal(t, home+"/.cargo/bin, seen as /toolchains"+home+"/.cargo/bin", p.Toolchains[2])
	assert.NotContains(t, s.Planned(nil, "").Path, ".cargo")
}

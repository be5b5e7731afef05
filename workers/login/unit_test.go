package login

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/homelock"
)

// A stop waits for the questions under way: a refresh that is cut costs the login.
func TestAStopDrains(t *testing.T) {
	home := &codexhome.Home{Dir: t.TempDir(), Runtime: t.TempDir()}
	lock, err := homelock.Take(t.Context(), home.Dir, "test")
	require.NoError(t, err)
	defer func() { assert.NoError(t, lock.Release()) }()
	assert.True(t, Unit{Worker: "w", Home: home}.command(nil, lock, io.Discard).Drain)
}

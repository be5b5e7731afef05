package login

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/broker"
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

// A fault that no login mends is not one of the account.
func TestFaultOf(t *testing.T) {
	fault := faultOf(&codexhome.Problem{Text: "no codex", Hint: "install it"})
	assert.Equal(t, &broker.Error{Code: broker.Unavailable, Message: "no codex: install it"}, fault)
	assert.Equal(t, broker.NoAccount, faultOf(fmt.Errorf("w.toml: %w", codexhome.ErrNoLogin)).Code)
}

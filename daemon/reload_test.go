package daemon

import (
	"log/slog"
	"net"
	"os"
	"regexp"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/config"
)

// bound is the longest that any wait of these tests takes.
const bound = time.Minute

func received[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(bound):
		require.FailNow(t, "waited in vain")
		panic("unreachable")
	}
}

// A start, and a reload with its last steps, must end before systemd ends them.
func TestStartFitsIntoTheUnit(t *testing.T) {
	unit, err := os.ReadFile("../packaging/systemd/codex-proxy.service")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^TimeoutStartSec=(.*)$`).FindSubmatch(unit)
	require.NotNil(t, found)
	limit, err := time.ParseDuration(string(found[1]))
	require.NoError(t, err)
	assert.Less(t, max(storeBound, 2*handoffMargin)+config.MaxStart, limit)
}

// failing is a listener that accepts nothing, for these reasons.
type failing struct {
	net.Listener
	reasons []error
}

func (l *failing) Accept() (net.Conn, error) {
	err := l.reasons[0]
	l.reasons = l.reasons[1:]
	return nil, err
}

func TestReloadsThatCannotBeAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failing{reasons: []error{syscall.EMFILE, syscall.EMFILE, net.ErrClosed}}
		server := reloadServer{logger: slog.New(slog.DiscardHandler)}
		assert.NoError(t, server.run(t.Context(), l), "it must not end the service")
		assert.Empty(t, l.reasons)
	})
}

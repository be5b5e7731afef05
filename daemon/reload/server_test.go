package reload

import (
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

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
		server := Server{Logger: slog.New(slog.DiscardHandler)}
		assert.NoError(t, server.Run(t.Context(), l), "it must not end the service")
		assert.Empty(t, l.reasons)
	})
}

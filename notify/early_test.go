package notify

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An early relay serves before the command is ready, and any other one after that.
func TestRelayBeforeTheCommandIsReady(t *testing.T) {
	for _, early := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "front")
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		ready, served := make(chan struct{}), make(chan struct{})
		relay := &Relay{Listeners: []net.Listener{l}, Limit: 1, Early: early,
			Serve: func(context.Context, *net.UnixConn, string) error { close(served); return nil }}
		ctx, stop := context.WithCancel(t.Context())
		probed := make(chan struct{}, 1)
		c := Command{Args: []string{"sleep", "infinity"}, Relay: relay, ProbeTimeout: patience,
			Ready: []Probe{func(ctx context.Context) (string, error) {
				probed <- struct{}{}
				select {
				case <-ready:
					return "ready", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}}}
		ended := make(chan error, 1)
		go func() { _, err := Exec(ctx, nil, slog.New(slog.DiscardHandler), c); ended <- err }()
		conn, err := net.Dial("unix", path)
		require.NoError(t, err)
		<-probed
		if early {
			within(t, served)
		}
		select {
		case <-served:
			assert.True(t, early, "it is not ready")
		default:
		}
		close(ready)
		within(t, served)
		require.NoError(t, conn.Close())
		stop()
		require.NoError(t, <-ended)
	}
}

func within(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		require.Fail(t, "the relay does not serve")
	}
}

package prepare

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPreparationIsCutBySystemd(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		var c *startEnded
		for name, end := range map[string]func(context.Context) error{
			"by its own error": func(ctx context.Context) error { return context.Cause(ctx) },
			"by another error": func(context.Context) error { return os.ErrPermission },
			"without an error": func(context.Context) error { return nil },
		} {
			err := WithSignals(t.Context(), func(ctx context.Context) error {
				require.NoError(t, syscall.Kill(os.Getpid(), s))
				<-ctx.Done()
				return end(ctx)
			})
			require.ErrorAs(t, err, &c, name)
			assert.Equal(t, s, c.signal)
			assert.ErrorContains(t, err, "TimeoutStartSec= has passed")
		}
	}
}

func TestAPreparationThatEndsIsNotCut(t *testing.T) {
	assert.NoError(t, WithSignals(t.Context(), func(context.Context) error { return nil }))
	failed := errors.New("bad")
	assert.Equal(t, failed, WithSignals(t.Context(), func(context.Context) error { return failed }))
	ExitBySignal(failed)
}

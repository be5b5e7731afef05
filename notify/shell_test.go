package notify

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShell(t *testing.T) {
	assert.NoError(t, Shell(t.Context(), "true && test -z \"$NOTIFY_SOCKET\""))
	assert.EqualError(t, Shell(t.Context(), "exit 3"), "exit status 3")
	assert.EqualError(t, Shell(t.Context(), "echo not yet >&2; false"), "exit status 1: not yet")
	assert.Len(t, Shell(t.Context(), "yes | head -c 100000; false").Error(), len("exit status 1: ")+outputLimit-1)
}

// A process that outlives the line and keeps its output open neither delays the result nor costs the reason.
func TestShellOutlived(t *testing.T) {
	const line = "setsid sleep 60 & echo $! not yet; exit 3"
	began := time.Now()
	reason := Shell(t.Context(), line).Error()
	assert.Less(t, time.Since(began), 30*time.Second)
	var sleeper int
	_, err := fmt.Sscanf(reason, "exit status 3: %d not yet", &sleeper)
	require.NoError(t, err, reason)
	assert.NoError(t, syscall.Kill(sleeper, syscall.SIGKILL))
	assert.NoError(t, Shell(t.Context(), "yes | head -c 100000"))
}

func TestShellIsKilledAsAGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	assert.ErrorIs(t, Shell(ctx, "sleep 60 | sleep 60"), context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 10*time.Second)
}

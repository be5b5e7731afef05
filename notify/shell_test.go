package notify

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestShell(t *testing.T) {
	assert.NoError(t, Shell(t.Context(), "true && test -z \"$NOTIFY_SOCKET\""))
	assert.EqualError(t, Shell(t.Context(), "exit 3"), "exit status 3")
	assert.EqualError(t, Shell(t.Context(), "echo not yet >&2; false"), "exit status 1: not yet")
	assert.Len(t, Shell(t.Context(), "yes | head -c 100000; false").Error(), len("exit status 1: ")+outputLimit-1)
}

func TestShellIsKilledAsAGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	assert.ErrorIs(t, Shell(ctx, "sleep 60 | sleep 60"), context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 10*time.Second)
}

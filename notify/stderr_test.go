package notify

import (
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that outlives the command and keeps its standard error open does not delay Exec.
func TestExecPassesLinesOn(t *testing.T) {
	var got []string
	status, err := Exec(t.Context(), nil, slog.New(slog.DiscardHandler), Command{
		Args:   []string{"sh", "-c", "sleep 60 >/dev/null & echo $! >&2; echo last >&2; exit 3"},
		Stderr: func(piece string) { got = append(got, piece) },
	})
	require.NoError(t, err)
	require.Len(t, got, 2)
	sleeper, err := strconv.Atoi(strings.TrimSpace(got[0]))
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(sleeper, syscall.SIGKILL), "it has outlived the command")
	assert.Equal(t, 3, status.ExitStatus())
	assert.Equal(t, "last\n", got[1])
}

// A long last line of a command is complete, although it is read late and another
// process keeps the pipe open.
func TestExecPassesAllOfTheLastLineOn(t *testing.T) {
	const script = `sleep 60 >/dev/null & echo $! >&2; head -c 300000 /dev/zero | tr '\0' x >&2`
	var got strings.Builder
	_, err := Exec(t.Context(), nil, slog.New(slog.DiscardHandler), Command{
		Args:   []string{"sh", "-c", script},
		Stderr: func(piece string) { got.WriteString(piece) },
	})
	require.NoError(t, err)
	pid, rest, _ := strings.Cut(got.String(), "\n")
	sleeper, err := strconv.Atoi(pid)
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(sleeper, syscall.SIGKILL))
	assert.True(t, rest == strings.Repeat("x", 300000), "%d bytes", len(rest))
}

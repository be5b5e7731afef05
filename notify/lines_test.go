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

func TestLines(t *testing.T) {
	var got []string
	w := &lineWriter{each: func(line string) { got = append(got, line) }}
	long := strings.Repeat("x", maxLine+3)
	for _, piece := range []string{"one\ntw", "o\n\nth", "ree", "\n", long, "y\n", "no end"} {
		n, err := w.Write([]byte(piece))
		assert.NoError(t, err)
		assert.Equal(t, len(piece), n)
	}
	w.flush()
	assert.Equal(t, []string{"one", "two", "three", long[:maxLine], "xxxy", "no end"}, got)
}

// What outlives the command and holds its standard error does not hold us.
func TestExecPassesLinesOn(t *testing.T) {
	var got []string
	status, err := Exec(t.Context(), nil, slog.New(slog.DiscardHandler), Command{
		Args:   []string{"sh", "-c", "sleep 60 >/dev/null & echo $! >&2; echo last >&2; exit 3"},
		Stderr: func(line string) { got = append(got, line) },
	})
	require.NoError(t, err)
	require.Len(t, got, 2)
	sleeper, err := strconv.Atoi(got[0])
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(sleeper, syscall.SIGKILL), "it has outlived the command")
	assert.Equal(t, 3, status.ExitStatus())
	assert.Equal(t, "last", got[1])
}

package bed

import (
	"context"
	"errors"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/manual"
)

// Follow runs a remedy that is one command.
func Follow(b *Bed, remedy string) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", remedy)
}

// Begin runs a command and delivers its result.
func (b *Bed) Begin(args ...string) <-chan error {
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	go func() {
		defer cancel()
		stdout, stderr, err := b.Run(ctx, args...)
		if err != nil {
			err = errors.Join(err, errors.New(stdout+stderr))
		}
		ended <- err
	}()
	return ended
}

// ReasonOf is the reason of a worker in a report, or "".
func ReasonOf(r Report, worker string) probes.Reason {
	for _, w := range r.Workers {
		if w.Name == worker {
			return w.Reason
		}
	}
	return ""
}

// Trim leaves the space at both ends of an output out.
func Trim(s string) string { return strings.TrimSpace(s) }

// FollowManual runs the commands of a manual unchanged.
func (b *Bed) FollowManual(m *manual.Manual) {
	b.T.Helper()
	for _, block := range m.Commands() {
		out, stderr, err := b.Run(b.T.Context(), "sh", "-ec", block)
		assert.NoError(b.T, err, "%s\n%s%s", block, out, stderr)
	}
}

// MustPrint is MustRun with stderr.
func MustPrint(b *Bed, args ...string) string {
	b.T.Helper()
	stdout, stderr, err := b.Run(b.T.Context(), args...)
	require.NoError(b.T, err, stdout+stderr)
	return stdout + stderr
}

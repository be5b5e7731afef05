package runner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
)

// The output of a command goes to the journal if the request says so.
func TestOutputInTheJournal(t *testing.T) {
	b := newBed(t)
	for _, journal := range []bool{true, false} {
		_, err := b.Create(t.Context(), alice, wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"true"}, Journal: journal}}})
		require.NoError(t, err)
		assert.Equal(t, journal, b.started().Spec.Journal)
	}
}

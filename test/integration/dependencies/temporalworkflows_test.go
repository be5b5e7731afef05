package dependencies

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// Workflows of Temporal's Go SDK that a kill of the server cuts in the middle are there after it, and complete.
func TestTemporalWorkflows(t *testing.T) {
	t.Parallel()
	testTemporalWorkflows(t, bed.Oldest)
}

func testTemporalWorkflows(t *testing.T, suite string) {
	s := newTemporal(t, suite, "")
	const program = "/opt/temporal-client"
	require.NoError(t, s.CopyIn(bed.BuildClients(t, "../../clients/temporal"), program))
	s.Start()
	s.serveKills()
	run := s.RunID()
	ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
	defer cancel()
	var out bytes.Buffer
	err := s.Exec(ctx, machine.Exec{Args: []string{program, "-test.v", "-test.timeout=" + bed.Bound.String()},
		Env: []string{"TEMPORAL_ADDRESS=" + temporalAddr, "BED_KILL=http://" + killAddr}, Stdout: &out, Stderr: &out})
	t.Log(out.String())
	require.NoError(t, err)
	assert.NotEqual(t, run, s.RunID())
	assert.Equal(t, "1", s.Properties(s.Unit, "NRestarts")["NRestarts"])
}

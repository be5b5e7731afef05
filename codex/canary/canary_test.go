package canary

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/codexes"
	"codex-proxy/test/codexschema"
)

// Each accepted codex has the messages in use.
func TestSchemasOfAcceptedCodexes(t *testing.T) {
	pinned := codexes.Pinned(t)
	for version, dir := range codexschema.Generate(t) {
		if version == pinned {
			require.NoError(t, CheckSchema(dir), version)
		} else {
			assert.NoError(t, CheckSchema(dir), version)
		}
	}
}

// A step that is late is tried once more, with more time, and a step that fails is not.
func TestALateStepRunsAgain(t *testing.T) {
	slow := func(took ...time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			after := time.NewTimer(took[0])
			defer after.Stop()
			took = took[1:]
			select {
			case <-after.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for name, tc := range map[string]struct {
		step   func(context.Context) error
		reason string
		took   time.Duration
	}{
		"a busy machine": {slow(FirstLimit+1, FirstLimit+1), "", 2*FirstLimit + 1},
		"it hangs":       {slow(time.Hour, time.Hour), "it has not finished within 10s", FirstLimit + StepLimit},
		"it fails":       {func(context.Context) error { return errors.New("no such table") }, "no such table", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := Try(Limits(), func(limit Limit) error { return Run(t.Context(), limit, Step{"a plain turn", tc.step}) })
				assert.Equal(t, tc.took, time.Since(began))
				if tc.reason == "" {
					require.NoError(t, err)
					return
				}
				require.EqualError(t, err, "it fails at a plain turn: "+tc.reason)
			})
		})
	}
}

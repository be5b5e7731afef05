package runner_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/sandbox"
)

// The settings of sandboxes go to the unit of a command. A plan has no value of a variable, nor has a session.
func TestSandboxOfCommands(t *testing.T) {
	settings := sandbox.Settings{
		Path: []string{"/opt/tools"}, Env: map[string]string{"TOKEN": "s3cret", "GOPROXY": "x"}, Toolchains: []string{"/opt/zig"},
		UserToolchains: true,
	}
	b := newBed(t, func(s *runner.Settings) { s.Sandbox = settings })
	n := wire.NewSession{Commands: []wire.NewCommand{{Args: []string{"a"}}}}
	plan, err := b.Plan(t.Context(), alice, n)
	require.NoError(t, err)
	assert.NotEmpty(t, plan.Sandbox.Usual)
	plan.Sandbox.Usual = nil
	assert.Equal(t, wire.PlanSandbox{
		Path: settings.Path, Toolchains: settings.Toolchains, UserToolchains: true, Variables: []string{"GOPROXY", "TOKEN"},
	}, plan.Sandbox)
	assert.Equal(t, "codex-session@.service", plan.Unit)
	s, err := b.Create(t.Context(), alice, n)
	require.NoError(t, err)
	u := b.started()
	assert.Equal(t, settings.Given(), u.Spec.Sandbox)
	assert.Equal(t, alice.UID, u.Spec.Owner)
	u.End(exit(0))
	text, err := json.Marshal([]any{plan, b.until(s.ID, ended(1))})
	require.NoError(t, err)
	assert.NotContains(t, string(text), "s3cret")
}

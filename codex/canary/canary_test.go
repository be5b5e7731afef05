package canary

import (
	"testing"

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

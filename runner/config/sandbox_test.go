package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A mistake in [sandbox] has its line and its key, and no value, which may be secret.
func TestSandbox(t *testing.T) {
	c, err := load(t, "[sandbox]\npath = [\"/opt/bin\"]\n[sandbox.env]\nTOKEN = \"secret\"\n")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"TOKEN": "secret"}, c.Sandbox.Env)
	assert.Equal(t, c.Sandbox.Given(), c.Environments.Sandbox, "builds have it, too")
	assert.Equal(t, c.Sandbox.Env, c.Repositories.Env, "and fetches")
	for text, want := range map[string]string{
		"path = [\"bin\"]":                          `runner.toml:2: sandbox.path has "bin"`,
		"toolchains = [\"/home\"]":                  `runner.toml:2: sandbox.toolchains has "/home"`,
		"[sandbox.env]\nPATH = \"/x:secret\"":       "runner.toml:2: sandbox.env has PATH",
		"env = { TOKEN = [\"secret\"] }":            "runner.toml:2: ",
		"user_toolchain = true":                     `(did you mean "sandbox.user_toolchains"?)`,
		"env = { \"a b\" = \"secret\", c = \"d\" }": `sandbox.env has the name "a b"`,
	} {
		_, err := load(t, "[sandbox]\n"+text+"\n")
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
	}
}

package integration

import (
	"strings"

	"github.com/stretchr/testify/require"
)

// preset adds a dependency by a packaged preset, and changes its file: old and new text by
// turns.
func (b *bed) preset(name, preset string, changes ...string) dependency {
	b.t.Helper()
	b.MustRun(b.t, "codex-proxy", "dependencies", "add", name, "--preset", preset)
	data, err := b.ReadFile("/etc/codex-proxy/dependencies/" + name + ".toml")
	require.NoError(b.t, err)
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		require.Contains(b.t, text, changes[i])
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return b.dependency(name, text)
}

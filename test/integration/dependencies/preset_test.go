package dependencies

import (
	"strings"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// preset adds a dependency by a packaged preset, and changes its file: old and new text by
// turns.
func preset(b *bed.Bed, name, preset string, changes ...string) bed.Dependency {
	b.T.Helper()
	b.MustRun(b.T, "codex-proxy", "dependencies", "add", name, "--preset", preset)
	data, err := b.ReadFile("/etc/codex-proxy/dependencies/" + name + ".toml")
	require.NoError(b.T, err)
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		require.Contains(b.T, text, changes[i])
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return bed.NewDependency(b, name, text)
}

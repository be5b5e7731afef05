package main

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

// docs/configuration.md says what the reference files say.
func TestConfigurationInTheDocs(t *testing.T) {
	_, err := made() // in the repository's root from here on
	require.NoError(t, err)
	proxy, err := os.ReadFile(proxyFile)
	require.NoError(t, err)
	worker, err := os.ReadFile(workerFile)
	require.NoError(t, err)
	want := configuration(string(proxy), string(worker))
	const path = "docs/configuration.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "run: go test ./packaging/manual -run ConfigurationInTheDocs -update")
}

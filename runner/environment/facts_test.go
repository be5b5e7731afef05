package environment

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"codex-proxy/runner/environment/environmenttest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFacts has a tool run once, and again after it changed.
func TestFacts(t *testing.T) {
	host := Host{Path: t.TempDir(), Facts: Facts{}}
	runs := filepath.Join(t.TempDir(), "runs")
	install := func(version string) {
		fresh := filepath.Join(host.Path, "new")
		require.NoError(t, os.WriteFile(fresh, []byte("#!/bin/sh\necho x >>"+runs+"\necho "+version+"\n"), 0o755))
		require.NoError(t, os.Chtimes(fresh, first0, first0))
		require.NoError(t, os.Rename(fresh, filepath.Join(host.Path, "micromamba")))
	}
	workspace := environmenttest.Write(t, map[string]string{"environment.yml": ""})
	for i, version := range []string{"1", "1", "2", "2"} {
		if i%2 == 0 {
			install(version)
		}
		order, err := Plan(t.Context(), host, workspace, "1000", "")
		require.NoError(t, err)
		assert.Equal(t, version, order.Tools[0].Version)
		data, err := os.ReadFile(runs)
		require.NoError(t, err)
		assert.Len(t, data, 2*(i/2+1), "after "+strconv.Itoa(i+1)+" plans")
	}
}

// TestFactsGiveTheSameTools has the tools of the host report the same with and without facts.
func TestFactsGiveTheSameTools(t *testing.T) {
	host := Host{Path: debian.Path, Facts: Facts{}}
	for _, name := range []string{"python3", "pip", "git"} {
		for range 2 {
			want, err := debian.Tool(t.Context(), name)
			require.NoError(t, err)
			got, err := host.Tool(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
	assert.Len(t, host.Facts, 2)
}

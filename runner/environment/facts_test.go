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
		order, err := Plan(t.Context(), host, workspace, "1000", "conda", "")
		require.NoError(t, err)
		assert.Equal(t, version, order.Tools[0].Version)
		data, err := os.ReadFile(runs)
		require.NoError(t, err)
		assert.Len(t, data, 2*(i/2+1), "after "+strconv.Itoa(i+1)+" plans")
	}
}

// TestFactsGiveTheSameKey has the tools of the host report the same with and without facts.
func TestFactsGiveTheSameKey(t *testing.T) {
	host := Host{Path: debian.Path, Facts: Facts{}}
	for name, workspace := range map[string]string{
		"venv": environmenttest.Write(t, map[string]string{"requirements.txt": ""}),
		"node": environmenttest.Write(t, map[string]string{"package.json": "{}", "package-lock.json": "{}"}),
	} {
		for range 2 {
			want, err := Plan(t.Context(), debian, workspace, "1000", name, "")
			require.NoError(t, err)
			got, err := Plan(t.Context(), host, workspace, "1000", name, "")
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
	}
	assert.Len(t, host.Facts, 3)
}

// BenchmarkPlan decides on an environment whose tools are known.
func BenchmarkPlan(b *testing.B) {
	workspace := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(workspace, "requirements.txt"), []byte("greet==1\n"), 0o644))
	host := Host{Path: debian.Path, Facts: Facts{}}
	for b.Loop() {
		_, err := Plan(b.Context(), host, workspace, "1000", Auto, "")
		require.NoError(b, err)
	}
}

package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A room that has a package of checks brings them: doctor shows at least one finding of each.
func TestEveryRoomIsExamined(t *testing.T) {
	checks := map[string]string{"proxycheck": "databases", "workerscheck": "codex", "brokercheck": "brokers", "dependenciescheck": "dependencies",
		"remotescheck": "remotes", "herecheck": "here"}
	packages, err := filepath.Glob("../../*/?*check")
	require.NoError(t, err)
	inner, err := filepath.Glob("../../*/*/?*check")
	require.NoError(t, err)
	packages = append(packages, inner...)
	text, err := os.ReadFile("doctor.go")
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, f := range Examine(t.Context(), newBed(t).host).Findings {
		shown[f.Check] = true
	}
	for _, dir := range packages {
		name := filepath.Base(dir)
		assert.Contains(t, string(text), name+".New(", "add %s to the rooms of Examine", dir)
		require.Contains(t, checks, name, "name a check of it here")
		assert.True(t, shown[checks[name]], "no finding of %s", dir)
	}
}

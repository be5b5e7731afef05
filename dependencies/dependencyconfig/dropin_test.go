package dependencyconfig

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each file of testdata has its drop-in beside it.
func TestDropIn(t *testing.T) {
	files, err := filepath.Glob("testdata/*.toml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := Load(file)
			require.NoError(t, err)
			golden := strings.TrimSuffix(file, ".toml") + ".conf"
			if *update {
				require.NoError(t, os.WriteFile(golden, s.DropIn(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(s.DropIn()))
		})
	}
}

package remoteconfig

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

// Each file of testdata has its drop-ins beside it.
func TestDropIns(t *testing.T) {
	files, err := filepath.Glob("testdata/*.toml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := Load(file)
			require.NoError(t, err)
			texts := map[string][]byte{"service": s.ServiceDropIn(), "socket": s.SocketDropIn()}
			if len(s.Notify) > 0 {
				texts["notify"], texts["notifysocket"] = s.NotifyDropIn(), s.NotifySocketDropIn()
			}
			for kind, text := range texts {
				golden := strings.TrimSuffix(file, ".toml") + "." + kind + ".conf"
				if *update {
					require.NoError(t, os.WriteFile(golden, text, 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				assert.Equal(t, string(want), string(text))
			}
		})
	}
}

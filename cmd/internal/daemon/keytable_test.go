package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/workers"
)

// A key that was revoked after a new process had read the file stays revoked.
func TestKeysChangedDuringAHandOff(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	file := filepath.Join(t.TempDir(), "api-keys")
	keys, err := auth.Parse(strings.NewReader("alice " + hash + "\nbob " + hash + "\n"))
	require.NoError(t, err)
	d := &Daemon{
		cfg:     &config.Config{Keys: keys, KeyFile: file},
		handoff: &succession{},
		pool:    workers.NewPool(nil, workers.Queue{Limit: 1, Timeout: time.Second}, func() {}),
	}
	d.keyTable.daemon = d
	d.metrics = newMetrics(prometheus.NewRegistry(), d)
	require.NoError(t, os.WriteFile(file, []byte("bob "+hash+"\n"), 0o600))
	older := "alice " + hash + "\n"
	for _, m := range []memory{{}, {keyMemory: keyMemory{Keys: &older}}} {
		require.NoError(t, d.recall(m))
		assert.Equal(t, []string{"bob"}, keys.Names(), "the file is the newest")
	}
	require.NoError(t, os.WriteFile(file, []byte("bob"), 0o600))
	require.NoError(t, d.recall(memory{}))
	assert.Equal(t, []string{"bob"}, keys.Names())
	require.NoError(t, d.recall(memory{keyMemory: keyMemory{Keys: &older}}))
	assert.Equal(t, []string{"alice"}, keys.Names())
	other := "carol " + hash + "\n"
	require.NoError(t, d.recall(memory{keyMemory: keyMemory{Keys: &other, KeyFile: "/srv/other"}}))
	assert.Equal(t, []string{"alice"}, keys.Names(), "those of another file")
}

package stored_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/stored/storedtest"
)

// A file is a Store.
func TestContract(t *testing.T) {
	storedtest.Contract(t, func(t *testing.T, limits stored.Limits) func() stored.Store {
		path := filepath.Join(t.TempDir(), stored.FileName)
		return func() stored.Store {
			s := stored.New(stored.Settings{
				Path: path, Limits: limits, Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, s.Open(t.Context()))
			t.Cleanup(func() { assert.NoError(t, s.Close()) })
			return s
		}
	})
}

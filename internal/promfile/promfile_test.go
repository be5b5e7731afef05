package promfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rig is a writer of one metric.
type rig struct {
	*Writer
	log bytes.Buffer
}

func newRig(t *testing.T, path string) *rig {
	t.Helper()
	r := &rig{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "one", Help: "One."}))
	r.Writer = New(path, registry, func() []string { return nil }, slog.New(slog.NewTextHandler(&r.log, nil)))
	return r
}

// Node exporter runs as another user, and reads every *.prom as metrics.
func TestReadableAndAlone(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, filepath.Join(dir, "x.prom"))
	r.write()
	info, err := os.Stat(r.path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestWithoutNodeExporter(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "none", "x.prom"))
	r.write()
	assert.Empty(t, r.log.String())
}

func TestFailureIsLoggedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	r := newRig(t, filepath.Join(file, "x.prom"))
	r.write()
	r.write()
	assert.Equal(t, 1, strings.Count(r.log.String(), "cannot write the textfile"), r.log.String())
}

// A file that a link leads to stays.
func TestClear(t *testing.T) {
	r := newRig(t, filepath.Join(t.TempDir(), "x.prom"))
	r.Clear() // there is none
	r.write()
	r.Clear()
	text, err := os.ReadFile(r.path)
	require.NoError(t, err)
	assert.Empty(t, text)
	assert.Empty(t, r.log.String())
}

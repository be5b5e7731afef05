package properties

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The delays are those measured with systemd 257.
func TestRestartDelays(t *testing.T) {
	worker := restartDelays{first: 100 * time.Millisecond, steps: 6, max: 10 * time.Second}
	for i, want := range []time.Duration{100, 100, 215, 464, 1000, 2154, 4641, 10_000, 10_000} {
		assert.InDelta(t, want*time.Millisecond, worker.before(uint32(i)), float64(time.Millisecond), "restart %d", i)
	}
	constant := 200 * time.Millisecond
	for name, d := range map[string]restartDelays{
		"no steps":         {first: constant, max: time.Minute},
		"no maximum":       {first: constant, steps: 5},
		"a lower maximum":  {first: constant, steps: 5, max: constant / 2},
		"the same maximum": {first: constant, steps: 5, max: constant},
	} {
		assert.Equal(t, constant, d.before(4), name)
	}
	assert.Zero(t, restartDelays{steps: 5, max: time.Minute}.before(4), "RestartSec=0 does not grow")
}

func TestRestartDelaysInFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	edit := write("edit.conf", "[Service]\n RestartMaxDelaySec = 1min 30s\n# RestartSteps=9\n[Unit]\nRestartSteps=7\n")
	wrong := write("wrong.conf", "[Service]\nRestartMaxDelaySec=soon\nRestartSteps=many\n")
	for unit, want := range map[string]restartDelays{
		"codex-worker@.service": {first: time.Second, steps: 6, max: 10 * time.Second},
		"codex-proxy.service":   {first: time.Second, steps: 10, max: 5 * time.Second},
	} {
		shipped, gone := filepath.Join("../../packaging/systemd", unit), filepath.Join(dir, "gone.conf")
		assert.Equal(t, want, restartDelaysIn([]string{shipped}, want.first), unit)
		want.max = 90 * time.Second
		assert.Equal(t, want, restartDelaysIn([]string{shipped, edit, wrong, gone}, want.first), unit)
	}
	assert.Equal(t, restartDelays{first: time.Second}, restartDelaysIn([]string{""}, time.Second))
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "10s": 10 * time.Second, "1us": time.Microsecond,
		"200 ms": 200 * time.Millisecond, "2.5": 2500 * time.Millisecond, "infinity": 0,
		"1min 30s": 90 * time.Second, "1h30min": 90 * time.Minute,
	} {
		got, ok := parseSpan(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "soon", "10x", "s", "1 fortnight", "-1s", "1..2s"} {
		_, ok := parseSpan(text)
		assert.False(t, ok, text)
	}
}

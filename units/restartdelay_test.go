package units

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The delays are those that systemd 257 was seen to wait.
func TestRampDelay(t *testing.T) {
	worker := Ramp{First: 100 * time.Millisecond, Steps: 6, Max: 10 * time.Second}
	for i, want := range []time.Duration{100, 100, 215, 464, 1000, 2154, 4641, 10_000, 10_000} {
		assert.InDelta(t, want*time.Millisecond, worker.Delay(uint32(i)), float64(time.Millisecond), "restart %d", i)
	}
	constant := 200 * time.Millisecond
	for name, r := range map[string]Ramp{
		"no steps":     {First: constant, Max: time.Minute},
		"no end":       {First: constant, Steps: 5},
		"a lower end":  {First: constant, Steps: 5, Max: constant / 2},
		"the same end": {First: constant, Steps: 5, Max: constant},
	} {
		assert.Equal(t, constant, r.Delay(4), name)
	}
	assert.Zero(t, Ramp{Steps: 5, Max: time.Minute}.Delay(4), "RestartSec=0 does not grow")
}

func TestRampOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	edit := write("edit.conf", "[Service]\n RestartMaxDelaySec = 1min 30s\n# RestartSteps=9\n[Unit]\nRestartSteps=7\n")
	wrong := write("wrong.conf", "[Service]\nRestartMaxDelaySec=soon\nRestartSteps=many\n")
	for unit, want := range map[string]Ramp{
		"codex-worker@.service": {First: time.Second, Steps: 6, Max: 10 * time.Second},
		"codex-proxy.service":   {First: time.Second, Steps: 10, Max: 5 * time.Second},
	} {
		shipped := filepath.Join("../packaging/systemd", unit)
		assert.Equal(t, want, rampOf(want.First, []string{shipped}), unit)
		want.Max = 90 * time.Second
		assert.Equal(t, want, rampOf(want.First, []string{shipped, edit, wrong, filepath.Join(dir, "gone.conf")}), unit)
	}
	assert.Equal(t, Ramp{First: time.Second}, rampOf(time.Second, []string{""}))
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "10s": 10 * time.Second, "1us": time.Microsecond, "200 ms": 200 * time.Millisecond,
		"1min 30s": 90 * time.Second, "1h30min": 90 * time.Minute, "2.5": 2500 * time.Millisecond, "infinity": 0,
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

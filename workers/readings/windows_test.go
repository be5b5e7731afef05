package readings

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"codex-proxy/codex/codexaccount"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server once named a reset in milliseconds: a year that JSON has no form for, so that the accounts could be neither
// listed nor stored, and no process could hand over.
func TestWindowsOfAnyNumbers(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	for _, n := range []int64{math.MinInt64, -1, 0, 1, now.Unix(), now.UnixMilli(), math.MaxInt64} {
		for _, used := range []int{math.MinInt, -1, 50, math.MaxInt} {
			windows := windowsOf(codexaccount.RateLimits{Primary: &codexaccount.RateLimitWindow{UsedPercent: used,
				WindowDurationMins: max(1, n), ResetsAt: n}})
			require.Len(t, windows, 1)
			data, err := json.Marshal(windows)
			require.NoError(t, err)
			assert.NotEmpty(t, data)
			assert.GreaterOrEqual(t, windows[0].UsedRatio, 0.0)
			assert.LessOrEqual(t, windows[0].UsedRatio, 1.0)
			assert.Positive(t, windows[0].Length+1)
		}
	}
	milliseconds := windowsOf(codexaccount.RateLimits{Primary: &codexaccount.RateLimitWindow{WindowDurationMins: 300, ResetsAt: now.UnixMilli()}})
	assert.Equal(t, now, milliseconds[0].ResetsAt)
}

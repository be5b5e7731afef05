package workers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
)

func TestRateLimitMetrics(t *testing.T) {
	reset := time.Unix(1_800_000_000, 0)
	c := NewRateLimitCollector(func() []Account {
		return []Account{
			{Worker: "a", Limits: []Limit{{Window: "5h", UsedRatio: 0.42, ResetsAt: reset},
				{Window: "7d", UsedRatio: 1}}},
			{Worker: "b"},
		}
	})
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP codex_worker_rate_limit_reset_timestamp_seconds When the window of that limit ends.
# TYPE codex_worker_rate_limit_reset_timestamp_seconds gauge
codex_worker_rate_limit_reset_timestamp_seconds{window="5h",worker="a"} 1.8e+09
# HELP codex_worker_rate_limit_used_ratio How much of the limit of the worker's account is used up in the window, from 0 to 1; absent where there is none or it is not known.
# TYPE codex_worker_rate_limit_used_ratio gauge
codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.42
codex_worker_rate_limit_used_ratio{window="7d",worker="a"} 1
`)))
	problems, err := testutil.CollectAndLint(c)
	assert.NoError(t, err)
	assert.Empty(t, problems)
}

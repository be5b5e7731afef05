package collectors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers/accounts"
	"codex-proxy/workers/collectors"
)

func TestAccountInUse(t *testing.T) {
	names := []string{"a", "b"}
	for rotation, a := range map[accounts.Rotation]string{accounts.Ordered: "1", accounts.Even: "0", accounts.Off: "0"} {
		store := accounts.NewStore(accounts.Policy{Rotation: rotation, Order: names}, names, func() {})
		require.NoError(t, testutil.CollectAndCompare(collectors.NewAccounts(store), strings.NewReader(`
# HELP codex_account_in_use Whether the account is the one in use; 0 for all unless rotation is "ordered".
# TYPE codex_account_in_use gauge
codex_account_in_use{account="a"} `+a+`
codex_account_in_use{account="b"} 0
`), "codex_account_in_use"), rotation)
	}
}

func TestRateLimitMetrics(t *testing.T) {
	now := time.Now()
	reset := now.Add(time.Hour).Truncate(time.Second)
	store := accounts.NewStore(accounts.Policy{}, []string{"a", "b"}, func() {})
	store.Read("a", "", accounts.Quota{At: now, Windows: []accounts.Window{
		accounts.NewWindow(300, 0.42, reset), accounts.NewWindow(7*24*60, 1, time.Time{})}})
	assert.NoError(t, testutil.CollectAndCompare(collectors.NewAccounts(store), strings.NewReader(fmt.Sprintf(`
# HELP codex_worker_rate_limit_reset_timestamp_seconds When the window of that limit ends.
# TYPE codex_worker_rate_limit_reset_timestamp_seconds gauge
codex_worker_rate_limit_reset_timestamp_seconds{window="5h",worker="a"} %d
# HELP codex_worker_rate_limit_used_ratio How much of the limit of the worker's account is used up in the window, from 0 to 1; absent where there is none or it is not known.
# TYPE codex_worker_rate_limit_used_ratio gauge
codex_worker_rate_limit_used_ratio{window="5h",worker="a"} 0.42
codex_worker_rate_limit_used_ratio{window="7d",worker="a"} 1
`, reset.Unix())), "codex_worker_rate_limit_reset_timestamp_seconds", "codex_worker_rate_limit_used_ratio"))
}

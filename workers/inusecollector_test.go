package workers_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"codex-proxy/workers"
	"codex-proxy/workers/accounts"
)

func TestInUseCollector(t *testing.T) {
	names := []string{"a", "b"}
	for rotation, a := range map[accounts.Rotation]string{accounts.Ordered: "1", accounts.Even: "0", accounts.Off: "0"} {
		book := accounts.NewBook(accounts.Policy{Rotation: rotation, Order: names}, names, func() {})
		require.NoError(t, testutil.CollectAndCompare(workers.NewInUseCollector(book), strings.NewReader(`
# HELP codex_account_in_use Whether the account is the one in use; 0 for all unless rotation is "ordered".
# TYPE codex_account_in_use gauge
codex_account_in_use{account="a"} `+a+`
codex_account_in_use{account="b"} 0
`)), rotation)
	}
}

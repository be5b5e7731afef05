package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/usage"
)

// maxUsage bounds the rows of usage of one exchange.
const maxUsage = 256

// queueUsage queues rows of the host. They have all that its database of usage has of a period, so that they may be
// written again.
func queueUsage(batch *pgx.Batch, q Question) {
	names, numbers := make([][]string, 5), make([][]int64, 5)
	for _, r := range q.Usage {
		if r.Counts == (usage.Counts{}) { // it was forgotten here
			continue
		}
		for i, name := range []string{r.Period, r.Key, r.Model, r.Account, r.Source} {
			names[i] = append(names[i], name)
		}
		for i, n := range []int64{r.Requests, r.InputTokens, r.CachedTokens, r.OutputTokens, r.ReasoningTokens} {
			numbers[i] = append(numbers[i], n)
		}
	}
	if len(names[0]) == 0 {
		return
	}
	batch.Queue("SELECT codex.bring_usage($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", q.Host.Machine,
		names[0], names[1], names[2], names[3], names[4], numbers[0], numbers[1], numbers[2], numbers[3], numbers[4])
}

// The sources of usage.Query.
const (
	usageByHour = `(SELECT period AS hour, substr(period, 1, 10) AS day, key, model, account, requests, input_tokens,
		cached_tokens, output_tokens, reasoning_tokens FROM codex.usage WHERE length(period) = 13) AS by_hour`
	usageByDay = `(SELECT '' AS hour, period AS day, key, model, account, requests, input_tokens,
		cached_tokens, output_tokens, reasoning_tokens FROM codex.usage WHERE length(period) = 10) AS by_day`
)

// ReadUsage is usage.Read of all hosts.
func ReadUsage(ctx context.Context, conn *pgx.Conn, since time.Time, by []string) ([]usage.Sum, error) {
	source := usageByDay
	if slices.Contains(by, "hour") {
		source = usageByHour
	}
	rows, err := conn.Query(ctx, usage.Query(by, source, "$1"), since.UTC().Format(time.DateOnly))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (u usage.Sum, err error) {
		err = row.Scan(&u.Hour, &u.Day, &u.Key, &u.Model, &u.Account, &u.Requests, &u.InputTokens, &u.CachedTokens,
			&u.OutputTokens, &u.ReasoningTokens)
		return u, err
	})
}

package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
)

// maxAsks bounds the asks of one exchange, for some hundred keys in use at the same time. The rest is asked in the
// next.
const maxAsks = 1024

// maxSwept bounds the hosts of one sweep.
const maxSwept = 20

// Shares makes an exchange of shares alone, for requests that wait for it.
func Shares(ctx context.Context, conn *pgx.Conn, q Question) (a Answer, err error) {
	batch := &pgx.Batch{}
	batch.Queue(notWaiting)
	queueHost(batch, q.Host, present)
	queueShares(batch, q, &a)
	return a, conn.SendBatch(ctx, batch).Close()
}

// queueShares queues the asks of a question. There are no answers but to all of them.
func queueShares(batch *pgx.Batch, q Question, a *Answer) {
	if len(q.Asks) == 0 {
		return
	}
	args := columnsOf(q.Asks)
	batch.Queue("SELECT granted, free, total FROM codex.share($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
		append([]any{q.Host.Name, q.Process}, args...)...).Query(func(rows pgx.Rows) error {
		answers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one share.Answer, err error) {
			err = row.Scan(&one.Granted, &one.Free, &one.Demand)
			return one, err
		})
		if err == nil && len(answers) != len(q.Asks) {
			err = fmt.Errorf("the database answers %d of %d asks", len(answers), len(q.Asks))
		}
		a.Shares = answers
		return err
	})
}

// columnsOf are the parameters of codex.share behind the process.
func columnsOf(asks []limits.Ask) []any {
	keys, kinds, daily := make([]string, len(asks)), make([]string, len(asks)), make([]bool, len(asks))
	numbers := make([][]float64, 7)
	for i := range numbers {
		numbers[i] = make([]float64, len(asks))
	}
	for i, ask := range asks {
		keys[i], kinds[i], daily[i] = ask.Key, ask.Kind, ask.Daily
		for n, number := range []float64{ask.Most, ask.Refill, ask.Held, ask.Used, ask.Demand, ask.Need, ask.Want} {
			numbers[n][i] = number
		}
	}
	return []any{keys, kinds, numbers[0], numbers[1], daily, numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]}
}

// sweep takes back the shares of lost hosts. A host may call it only if it has had its exchanges without a gap for a
// lease: else the database was away, and no host is lost.
func sweep(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT name FROM codex.hosts WHERE until < now() AND EXISTS (SELECT FROM codex.shares "+
		"WHERE host = name AND (held <> 0 OR demand <> 0)) LIMIT $1", maxSwept)
	if err != nil {
		return err
	}
	lost, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, host := range lost { // a transaction each, as each locks limits in their order
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT codex.take_back($1, '')", host)
		}
	}
	return err
}

// Forget removes limits and shares that nobody has used for long, and the usage before a day.
func Forget(ctx context.Context, conn *pgx.Conn, day string) error {
	batch := &pgx.Batch{}
	batch.Queue(notWaiting)
	batch.Queue("DELETE FROM codex.shares WHERE at < now() - interval '1 day' AND held = 0 AND demand = 0")
	batch.Queue("DELETE FROM codex.limits WHERE at < now() - interval '2 days' AND held = 0")
	batch.Queue("DELETE FROM codex.usage WHERE period < $1 OR length(period) = 13 AND "+
		"period < to_char((now() - interval '6 days') AT TIME ZONE 'UTC', 'YYYY-MM-DD')", day)
	return conn.SendBatch(ctx, batch).Close()
}

// Use is the use of one limit of a key by all hosts.
type Use struct {
	Key, Kind string
	share.Pool
}

// Uses reads the use of all limits.
func Uses(ctx context.Context, conn *pgx.Conn) ([]Use, error) {
	rows, err := conn.Query(ctx, "SELECT key, kind, used, held, demand, "+
		"extract(epoch FROM clock_timestamp() - at)::float8 "+
		"FROM codex.limits ORDER BY key, kind")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (u Use, err error) {
		var age float64
		err = row.Scan(&u.Key, &u.Kind, &u.Used, &u.Held, &u.Demand, &age)
		u.At = now.Add(-time.Duration(age * float64(time.Second)))
		return u, err
	})
}

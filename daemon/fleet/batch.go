package fleet

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
	"codex-proxy/proxy/usage"
)

// Question is what a host asks the database in an exchange.
type Question struct {
	Host    Host
	Process string // of the host, as its shares are of one
	First   bool   // of the process
	Known   int64  // the revision of the known keys
	Asks    []limits.Ask
	Usage   []usage.Row
	Count   bool // the hosts
	Sweep   bool // takes back the shares of lost hosts
}

// Answer is the answer of the database.
type Answer struct {
	Hosts    int // 0 without Count
	Revision int64
	Keys     string   // the text of a key file; empty if the revision is the known one
	Refused  []string // the names of keys that this version cannot use
	Shares   []share.Answer
}

// notWaiting leaves the disk out: a lease that is lost is renewed a second later, and shares and usage are absolute.
const notWaiting = "SELECT set_config('synchronous_commit', 'off', true)"

// Ask makes one exchange: it renews the lease of the host, takes and gives back shares of limits, brings usage, and reads
// the keys if their revision is another one than the known one. It may be repeated.
func Ask(ctx context.Context, conn *pgx.Conn, q Question) (a Answer, err error) {
	var step int
	batch := &pgx.Batch{}
	batch.Queue(notWaiting)
	batch.Queue("SELECT step FROM codex.schema").QueryRow(func(row pgx.Row) error { return row.Scan(&step) })
	batch.Queue("UPDATE codex.hosts SET until = now() + interval '5 s', version = $3 WHERE name = $1 AND machine = $2",
		q.Host.Name, q.Host.Machine, q.Host.Version).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return notJoined(q.Host.Name)
		}
		return nil
	})
	batch.Queue("SELECT n, CASE WHEN $1 THEN (SELECT count(*) FROM codex.hosts) ELSE 0 END FROM codex.revision",
		q.Count).QueryRow(func(row pgx.Row) error { return row.Scan(&a.Revision, &a.Hosts) })
	if q.First {
		batch.Queue("SELECT codex.take_back($1, $2)", q.Host.Name, q.Process)
	}
	queueUsage(batch, q)
	queueShares(batch, q, &a) // last, as other hosts wait for these limits until the end of the transaction
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return Answer{}, Explain(err)
	}
	if err := checkSchema(step); err != nil {
		return a, err
	}
	if q.Sweep {
		err = sweep(ctx, conn)
	}
	if err != nil || a.Revision == q.Known {
		return a, err
	}
	var lines string
	both := "SELECT n, (" + keyText + ") FROM codex.revision" // of one moment
	err = conn.QueryRow(ctx, both).Scan(&a.Revision, &lines)
	a.Keys, a.Refused = auth.Usable(file(lines))
	return a, err
}

// Explain names the remedy of an error of a database without our tables.
func Explain(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case "42P01", "3F000", "42883": // undefined table, schema, function
		return errors.New("the database does not have the tables of this version of codex-proxy; " +
			"codex-proxy database migrate")
	}
	return err
}

// Check is an error if a host cannot use the database.
func Check(ctx context.Context, conn *pgx.Conn, h Host) error {
	_, err := Ask(ctx, conn, Question{Host: h, Known: -1})
	return err
}

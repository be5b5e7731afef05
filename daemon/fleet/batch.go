package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/limits/share"
	"codex-proxy/proxy/usage"
)

// Question has the requests of a host to the database in an exchange.
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

// Ask makes one exchange: it renews the lease of the host, takes and gives back shares of limits, brings usage, and
// reads the keys if their revision is another one than the known one. It may be repeated.
func Ask(ctx context.Context, conn *pgx.Conn, q Question) (a Answer, err error) {
	if q.First {
		if err := takeBack(ctx, conn, q); err != nil {
			return Answer{}, Explain(err)
		}
	}
	var step int
	batch := &pgx.Batch{}
	batch.Queue(notWaiting)
	batch.Queue("SELECT step FROM codex.schema").QueryRow(func(row pgx.Row) error { return row.Scan(&step) })
	queueHost(batch, q.Host, "UPDATE codex.hosts SET until = now() + interval '5 s', version = $3 "+
		"WHERE name = $1 AND machine = $2 RETURNING name", q.Host.Version)
	batch.Queue("SELECT n, CASE WHEN $1 THEN (SELECT count(*) FROM codex.hosts) ELSE 0 END FROM codex.revision",
		q.Count).QueryRow(func(row pgx.Row) error { return row.Scan(&a.Revision, &a.Hosts) })
	queueUsage(batch, q)
	queueShares(batch, q, &a) // last, as other hosts wait for these limits until the end of the transaction
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return Answer{}, err
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

// present reads the row of a host that is in the fleet. The row cannot go before the end of the transaction.
const present = "SELECT name FROM codex.hosts WHERE name = $1 AND machine = $2 FOR KEY SHARE"

// queueHost queues a statement that returns the row of a host. Without one the server itself fails, so that nothing of
// the batch happens: a host that is not in the fleet has no shares.
func queueHost(batch *pgx.Batch, h Host, statement string, more ...any) {
	var one int
	batch.Queue("WITH host AS ("+statement+") SELECT 1 / count(*) FROM host",
		append([]any{h.Name, h.Machine}, more...)...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&one)
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "22012" { // division by zero
			return notJoined(h.Name)
		}
		return err
	})
}

// takeBack takes back the shares of earlier processes of the host: in a transaction of its own, as both this and
// codex.share lock limits in their order.
func takeBack(ctx context.Context, conn *pgx.Conn, q Question) error {
	batch := &pgx.Batch{}
	batch.Queue(notWaiting)
	queueHost(batch, q.Host, present)
	batch.Queue("SELECT codex.take_back($1, $2)", q.Host.Name, q.Process)
	return conn.SendBatch(ctx, batch).Close()
}

// Explain names the remedy of a database that refuses: it has no tables, or does not let a role in.
func Explain(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case "42P01", "3F000", "42883": // undefined table, schema, function
		return errors.New("the database does not have the tables of this version of codex-proxy; " +
			"codex-proxy database migrate")
	case "28P01": // invalid password, also of a role that is missing
		return fmt.Errorf("%w; /etc/codex-proxy/database-password has to be the one of the other hosts, and the SQL of "+
			"codex-proxy database init by it has to be run on the server, also if it has run before; then codex-proxy "+
			"database migrate, codex-proxy database join and systemctl restart codex-proxy", err)
	case "28000": // invalid authorization specification
		return fmt.Errorf("%w; pg_hba.conf of the server needs the line that ends the SQL of codex-proxy database init, "+
			"with both roles", err)
	case "42501": // insufficient privilege
		return fmt.Errorf("%w; codex-proxy database migrate gives the role of the services its rights, and the SQL of "+
			"codex-proxy database init, run on the server, the owner", err)
	}
	return err
}

// Check is an error if a host cannot use the database.
func Check(ctx context.Context, conn *pgx.Conn, h Host) error {
	_, err := Ask(ctx, conn, Question{Host: h, Known: -1})
	return err
}

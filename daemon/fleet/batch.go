package fleet

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"codex-proxy/proxy/auth"
)

// answer is the answer of the database in an exchange.
type answer struct {
	hosts    int
	revision int64
	keys     string   // the text of a key file; empty if the revision is the known one
	refused  []string // the names of keys that this version cannot use
}

// ask makes one exchange: it renews the lease of the host, and reads the keys if their revision is another one than
// the known one.
func ask(ctx context.Context, conn *pgx.Conn, h Host, known int64) (a answer, err error) {
	var step int
	batch := &pgx.Batch{}
	// A lost lease is renewed a second later: nobody has to wait for the disk.
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	batch.Queue("SELECT step FROM codex.schema").QueryRow(func(row pgx.Row) error { return row.Scan(&step) })
	batch.Queue("UPDATE codex.hosts SET until = now() + interval '5 s', version = $3 WHERE name = $1 AND machine = $2",
		h.Name, h.Machine, h.Version).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return notJoined(h.Name)
		}
		return nil
	})
	batch.Queue("SELECT n, (SELECT count(*) FROM codex.hosts) FROM codex.revision").QueryRow(func(row pgx.Row) error {
		return row.Scan(&a.revision, &a.hosts)
	})
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return answer{}, Explain(err)
	}
	if err := checkSchema(step); err != nil || a.revision == known {
		return a, err
	}
	var lines string
	both := "SELECT n, (" + keyText + ") FROM codex.revision" // of one moment
	err = conn.QueryRow(ctx, both).Scan(&a.revision, &lines)
	a.keys, a.refused = auth.Usable(file(lines))
	return a, err
}

// Explain names the remedy of an error of a database without our tables.
func Explain(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "42P01" || refused.Code == "3F000") { // undefined table, schema
		return errors.New("the database has no tables of codex-proxy yet; codex-proxy database migrate")
	}
	return err
}

// Check is an error if a host cannot use the database.
func Check(ctx context.Context, conn *pgx.Conn, h Host) error {
	_, err := ask(ctx, conn, h, -1)
	return err
}

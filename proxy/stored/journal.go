package stored

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// maxJournal is the size in pages, 64 MiB, from which on truncateJournal waits longer
// than a moment.
const maxJournal = 64 << 20 / 4096

// truncateJournal writes the journal into the database and empties it. SQLite never does
// so by itself while there is always a reader of the newest writes. This call waits for
// such readers, and no process can write meanwhile; later readers read the database. So
// it waits for a moment only, until the journal is large.
func (s *File) truncateJournal(ctx context.Context) error {
	conn, err := s.opened.Load().db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it goes back to its pool
	var patience int64
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&patience); err != nil {
		return err
	}
	if err := wait(ctx, conn, moment.Milliseconds()); err != nil {
		return err
	}
	busy, pages, err := checkpoint(ctx, conn)
	if err := errors.Join(err, wait(ctx, conn, patience)); err != nil {
		return err
	}
	if busy && pages > maxJournal {
		_, _, err = checkpoint(ctx, conn)
	}
	return err
}

// wait sets how long a connection waits for others, in milliseconds, also when ctx has
// ended: the next write must wait as always.
func wait(ctx context.Context, conn *sql.Conn, milliseconds int64) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf(`PRAGMA busy_timeout = %d`, milliseconds))
	return err
}

// checkpoint returns whether a reader or writer prevented it, and the pages in the
// journal.
func checkpoint(ctx context.Context, conn *sql.Conn) (busy bool, pages int, err error) {
	var written int
	err = conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &written)
	return busy, pages, err
}

package stored

import (
	"context"
	"database/sql"

	"codex-proxy/proxy/eventlog"
)

// EventsDirectory is the name of the directory of events in the state directory.
const EventsDirectory = "events"

// logsPart is the part of Limits.Bytes that the logs of responses in flight may have: one of so many. The log of a
// stored response counts for the response.
const logsPart = 4

// Log is the state of the log of a response.
type Log struct {
	Process string // that writes it; empty: the response has ended
	Size    int64  // of the whole log, once the response has ended
	Dead    bool   // the process has ended, and the response has not
}

// Log finds the log of a streamed background response.
func (s *Background) Log(ctx context.Context, owner, id string) (l Log, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT IFNULL(process, ''), IFNULL(size, 0) FROM logs LEFT JOIN inflight USING (id)
			WHERE id = ? AND logs.owner = ? AND NOT gone AND IFNULL(cancelled, 0) < ?`,
			id, owner, deleted).Scan(&l.Process, &l.Size)
	})
	l.Dead = err == nil && l.Process != "" && !s.Events.Alive(l.Process)
	return l, explain("the events of a response", err)
}

// ReadLog returns a reader of the events of a response after the number after.
func (s *Background) ReadLog(_ context.Context, _, id string, after int) (*eventlog.Reader, error) {
	return s.Events.Read(id, after)
}

// LoseLog gives up the log of a response in flight of this process.
func (s *Background) LoseLog(ctx context.Context, id string) error {
	if err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM logs WHERE id = ?`, id)
		return err
	}); err != nil {
		return err
	}
	return s.Events.Remove(id)
}

// removeLogs removes the logs of responses that are deleted.
func (s *File) removeLogs(ctx context.Context) error {
	var ids []string
	if err := s.read(ctx, func(tx *sql.Tx) (err error) {
		ids, err = texts(tx.QueryContext(ctx, `SELECT id FROM logs WHERE gone`))
		return err
	}); err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.Events.Remove(id); err != nil {
			return err
		}
		if err := s.write(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `DELETE FROM logs WHERE id = ? AND gone`, id)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// removeOrphans removes the logs that no response has, as after a crash between two steps.
func (s *File) removeOrphans(ctx context.Context) error {
	return s.Events.Sweep(func(id string) (known bool, err error) {
		err = s.read(ctx, func(tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT count(*) FROM logs WHERE id = ?`, id).Scan(&known)
		})
		return known, err
	})
}

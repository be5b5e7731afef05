package stored

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// InFlight is a background response that has not ended.
type InFlight struct {
	ID, Owner string
	Previous  string // id of the response that it continues; empty: none
	Process   string // that runs it, as eventlog.Logs names it
	Cancelled bool   // a client has cancelled it
	Size      int64  // of its object, in bytes
	Dead      bool   // its process has ended
}

// The values of inflight.cancelled.
const (
	cancelled = 1
	deleted   = 2
)

// Begin keeps a background response of this process from now on: its object, as clients get it meanwhile, and its
// request. streamed is whether it has a log, which is to be made after Begin.
func (s *Background) Begin(ctx context.Context, f InFlight, object, request []byte, streamed bool) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO inflight VALUES (?, ?, ?, NULLIF(?, ''), 0, ?, ?)`,
			f.ID, f.Owner, s.Events.Own(), f.Previous, notNull(object), notNull(request)); err != nil || !streamed {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO logs VALUES (?, ?, NULL, 0)`, f.ID, f.Owner)
		return err
	})
}

// Request is the request of a background response before the start of its turn.
func (s *Background) Request(ctx context.Context, id string) (request []byte, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT request FROM inflight WHERE id = ?`, id).Scan(&request)
	})
	return request, explain("a request", err)
}

// RequestSize is how many bytes Request returns.
func (s *Background) RequestSize(ctx context.Context, id string) (size int64, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT length(request) FROM inflight WHERE id = ?`, id).Scan(&size)
	})
	return size, explain("a request", err)
}

// Progress replaces the object of a background response of this process during its turn.
func (s *Background) Progress(ctx context.Context, id string, object []byte) error {
	return explain("a response", s.write(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx,
			`UPDATE inflight SET object = ?, request = x'' WHERE id = ? AND process = ?`, object, id, s.Events.Own())
		return affected(result, err)
	}))
}

// InFlight finds a background response that has not ended.
func (s *Background) InFlight(ctx context.Context, owner, id string) (f InFlight, err error) {
	f = InFlight{ID: id, Owner: owner}
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT process, cancelled, length(object), IFNULL(previous, '') FROM inflight
			WHERE id = ? AND owner = ? AND cancelled < ?`,
			id, owner, deleted).Scan(&f.Process, &f.Cancelled, &f.Size, &f.Previous)
	})
	f.Dead = err == nil && !s.Events.Alive(f.Process)
	return f, explain("a response", err)
}

// InFlightObject is the object of a background response that has not ended.
func (s *Background) InFlightObject(ctx context.Context, owner, id string) (object []byte, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT object FROM inflight WHERE id = ? AND owner = ? AND cancelled < ?`,
			id, owner, deleted).Scan(&object)
	})
	return object, explain("a response", err)
}

// Cancel has the process of a background response cancel it. ErrNotFound means that it is not in flight.
func (s *Background) Cancel(ctx context.Context, owner, id string) error {
	var process string
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		process, err = order(ctx, tx, owner, id, cancelled)
		return err
	})
	if err == nil {
		s.Events.Signal(process)
	}
	return explain("a response", err)
}

// order orders the process of a background response, which it returns, to cancel it, or to delete it.
func order(ctx context.Context, tx *sql.Tx, owner, id string, what int) (process string, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE inflight SET cancelled = max(cancelled, ?)
		WHERE id = ? AND owner = ? AND cancelled < ? RETURNING process`, what, id, owner, deleted).Scan(&process)
	return process, err
}

// Ordered are the background responses of this process that clients have cancelled or deleted.
func (s *Background) Ordered(ctx context.Context) (ids []string, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		ids, err = texts(tx.QueryContext(ctx, `SELECT id FROM inflight WHERE process = ? AND cancelled > 0`,
			s.Events.Own()))
		return err
	})
	return ids, explain("cancelled responses", err)
}

// Finish stores a background response of this process that has ended. The log has r.Log bytes. If the response was
// deleted meanwhile, Finish removes its remains, and returns ErrNotFound. It may be called again after an error, even
// if the response was stored.
func (s *Background) Finish(ctx context.Context, r Response) error {
	if r.Size() > s.Limits.Bytes {
		return ErrNoRoom
	}
	left, ended, same := false, false, false
	err := s.write(ctx, func(tx *sql.Tx) (err error) {
		if left, err = leave(ctx, tx, r.ID, s.Events.Own()); err != nil {
			return err
		}
		if left {
			return s.conclude(ctx, tx, r)
		}
		return tx.QueryRowContext(ctx, `SELECT count(*), IFNULL(max(object = ?), 0) FROM responses WHERE id = ?`,
			r.Object, r.ID).Scan(&ended, &same)
	})
	switch {
	case err != nil || left || same:
		return explain("a response", err)
	case ended: // by another process, which took this one for dead
		return ErrNotFound
	}
	return errors.Join(ErrNotFound, s.Events.Remove(r.ID))
}

// conclude inserts a response that was in flight.
func (s *Background) conclude(ctx context.Context, tx *sql.Tx, r Response) error {
	now := time.Now()
	if err := insert(ctx, tx, r, now); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE logs SET size = ? WHERE id = ?`, r.Log, r.ID); err != nil {
		return err
	}
	if r.Unfinished {
		if _, err := tx.ExecContext(ctx, `UPDATE links SET broken = 1 WHERE id = ?`, r.ID); err != nil {
			return err
		}
	}
	_, err := s.makeRoom(ctx, tx, r, now.Add(roomTime))
	return err
}

// leave takes a response out of those in flight, and reports whether it is to be stored.
func leave(ctx context.Context, tx *sql.Tx, id, process string) (bool, error) {
	var was int
	err := tx.QueryRowContext(ctx, `DELETE FROM inflight WHERE id = ? AND process = ? RETURNING cancelled`,
		id, process).Scan(&was)
	if err == nil && was < deleted {
		return true, nil
	}
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		_, err = tx.ExecContext(ctx, `DELETE FROM logs WHERE id = ? AND size IS NULL`, id)
	}
	return false, err
}

// affected returns sql.ErrNoRows if a statement has changed none.
func affected(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return sql.ErrNoRows
}

// notNull is a blob, which may be empty.
func notNull(blob []byte) []byte { return append([]byte{}, blob...) }

// texts reads rows of one text.
func texts(rows *sql.Rows, err error) (list []string, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

// Retract undoes Begin.
func (s *Background) Retract(ctx context.Context, id string) error {
	return errors.Join(s.write(ctx, func(tx *sql.Tx) error {
		_, err := leave(ctx, tx, id, s.Events.Own())
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM logs WHERE id = ?`, id)
		}
		return err
	}), s.Events.Remove(id))
}

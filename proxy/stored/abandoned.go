package stored

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
)

// End makes the end of a response after the end of its process: of its object, and of a log with so many events.
// cancelled is whether a client has cancelled it.
type End func(object []byte, sequence int, cancelled bool) (ended, events []byte, err error)

// Abandoned counts the background responses that have ended with their process.
type Abandoned struct{ Failed, Cancelled, Deleted int }

func (a *Abandoned) count(was int) {
	switch was {
	case cancelled:
		a.Cancelled++
	case deleted:
		a.Deleted++
	default:
		a.Failed++
	}
}

// EndAbandoned ends the background responses of processes that have ended, each once, however many processes call it.
// It returns those that it has ended.
func (s *Background) EndAbandoned(ctx context.Context, end End) (ended Abandoned, err error) {
	var processes []string
	err = s.read(ctx, func(tx *sql.Tx) error {
		processes, err = texts(tx.QueryContext(ctx, `SELECT DISTINCT process FROM inflight`))
		return err
	})
	for _, process := range processes {
		if s.Events.Alive(process) {
			continue
		}
		if err := s.endProcess(ctx, process, end, &ended); err != nil {
			return ended, err
		}
		s.Events.Forget(process)
	}
	return ended, explain("responses in flight", err)
}

// endProcess ends the responses of one process.
func (s *Background) endProcess(ctx context.Context, process string, end End, ended *Abandoned) error {
	for {
		var was int
		err := s.write(ctx, func(tx *sql.Tx) error {
			var id string
			if err := tx.QueryRowContext(ctx, `SELECT id, cancelled FROM inflight WHERE process = ? LIMIT 1`, process).
				Scan(&id, &was); err != nil {
				return err
			}
			return s.abandon(ctx, tx, process, id, func(object []byte, sequence int) (ended, events []byte, err error) {
				return end(object, sequence, was == cancelled)
			})
		})
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return explain("a response in flight", err)
		}
		ended.count(was)
	}
}

// ender is an End of a response of which it is known whether a client has cancelled it.
type ender func(object []byte, sequence int) (ended, events []byte, err error)

// abandon ends one response. Its input is not stored, so that it cannot be continued.
func (s *Background) abandon(ctx context.Context, tx *sql.Tx, process, id string, end ender) error {
	r := Response{ID: id, Unfinished: true}
	if err := tx.QueryRowContext(ctx, `SELECT owner, IFNULL(previous, ''), object FROM inflight WHERE id = ?`, id).
		Scan(&r.Owner, &r.Previous, &r.Object); err != nil {
		return err
	}
	left, err := leave(ctx, tx, id, process)
	if err != nil {
		return err
	}
	if !left {
		return s.Events.Remove(id)
	}
	if err := s.endLog(ctx, tx, &r, end); err != nil {
		return err
	}
	return s.conclude(ctx, tx, r)
}

// endLog ends the object of r, and its log, if it has one.
func (s *Background) endLog(ctx context.Context, tx *sql.Tx, r *Response, end ender) error {
	var streamed bool
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM logs WHERE id = ?`, r.ID).Scan(&streamed); err != nil {
		return err
	}
	begun := r.Object
	if streamed {
		size, err := s.Events.End(r.ID, func(sequence int) (events []byte, err error) {
			r.Object, events, err = end(begun, sequence)
			return events, err
		})
		if r.Log = size; !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM logs WHERE id = ?`, r.ID); err != nil {
			return err
		}
	}
	object, _, err := end(begun, 0)
	r.Object = object
	return err
}

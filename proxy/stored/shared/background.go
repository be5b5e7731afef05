package shared

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/stored"
)

// maxEvents is how large a log may be that other hosts get.
const maxEvents = 16 << 20

// Begin keeps a background response of this process from now on, for all hosts.
func (s *Background) Begin(ctx context.Context, f stored.InFlight, object, request []byte, streamed bool) error {
	if s.foreign() {
		s.alone.Store(f.ID, true)
		return s.file.Begin(ctx, f, object, request, streamed)
	}
	up := s.up()
	err := s.batch(ctx, int64(len(object)), func(b *pgx.Batch) {
		b.Queue(`INSERT INTO codex.inflight (id, owner, host, process, previous, streamed, object)
			VALUES ($1, $2, $3, $4, nullif($5, ''), $6, $7) ON CONFLICT DO NOTHING`,
			f.ID, f.Owner, s.host, s.Logs().Own(), f.Previous, streamed, notNull(object))
	})
	if away(err) && up {
		s.undos.late(func() error { return retract(context.Background(), s.database, f.ID, s.Logs().Own()) })
	}
	if err != nil {
		return err
	}
	if err := s.file.Begin(ctx, f, object, request, streamed); err != nil {
		return errors.Join(err, retract(ctx, s.database, f.ID, s.Logs().Own()))
	}
	s.flying.Store(f.ID, true)
	return nil
}

// retract deletes a background response that a process runs.
func retract(ctx context.Context, d *database, id, process string) error {
	return d.batch(ctx, 0, func(b *pgx.Batch) {
		b.Queue(`DELETE FROM codex.inflight WHERE id = $1 AND process = $2`, id, process)
	})
}

// Retract undoes Begin.
func (s *Background) Retract(ctx context.Context, id string) error {
	s.flying.Delete(id)
	return errors.Join(retract(ctx, s.database, id, s.Logs().Own()), s.file.Retract(ctx, id))
}

// Request is the request of a background response before the start of its turn.
func (s *Background) Request(ctx context.Context, id string) ([]byte, error) {
	return s.file.Request(ctx, id)
}

// RequestSize is how many bytes Request returns.
func (s *Background) RequestSize(ctx context.Context, id string) (int64, error) {
	return s.file.RequestSize(ctx, id)
}

// Progress replaces the object of a background response of this process during its turn. Other hosts have the one
// before if the database does not answer.
func (s *Background) Progress(ctx context.Context, id string, object []byte) error {
	_ = s.batch(ctx, int64(len(object)), func(b *pgx.Batch) {
		b.Queue(`UPDATE codex.inflight SET object = $3 WHERE id = $1 AND process = $2`, id, s.Logs().Own(), object)
	})
	return s.file.Progress(ctx, id, object)
}

// last asks the file first: it knows the responses of this host, also while the database does not answer. A response
// that has ended in the file is in flight nowhere.
func last[T any](ctx context.Context, s *Background, owner, id string,
	inFile, inDatabase func() (T, error)) (T, error) {
	got, err := inFile()
	if !errors.Is(err, stored.ErrNotFound) {
		return got, err
	}
	if got, err = inDatabase(); away(err) {
		if _, fileErr := s.file.ObjectSize(ctx, owner, id); fileErr == nil {
			err = stored.ErrNotFound
		}
	}
	return got, err
}

// dead reports whether the process of a response has ended: of this host by its lock, and of another one if its lease
// is over.
func (s *Background) dead(host, process string, leased bool) bool {
	if host == s.host {
		return !s.Logs().Alive(process)
	}
	return !leased && s.steady()
}

// InFlight finds a background response that has not ended.
func (s *Background) InFlight(ctx context.Context, owner, id string) (stored.InFlight, error) {
	return last(ctx, s, owner, id,
		func() (stored.InFlight, error) { return s.file.InFlight(ctx, owner, id) },
		func() (stored.InFlight, error) {
			f := stored.InFlight{ID: id, Owner: owner}
			var host string
			var leased bool
			err := s.row(ctx, `SELECT i.process, i.cancelled > 0, octet_length(i.object),
				coalesce(i.previous, ''), i.host, coalesce(h.until > now(), false)
				FROM codex.inflight AS i LEFT JOIN codex.hosts AS h ON h.name = i.host
				WHERE i.id = $1 AND i.owner = $2 AND i.cancelled < 2`, []any{id, owner},
				&f.Process, &f.Cancelled, &f.Size, &f.Previous, &host, &leased)
			f.Dead = err == nil && s.dead(host, f.Process, leased)
			return f, err
		})
}

// InFlightObject is the object of a background response that has not ended.
func (s *Background) InFlightObject(ctx context.Context, owner, id string) ([]byte, error) {
	return last(ctx, s, owner, id,
		func() ([]byte, error) { return s.file.InFlightObject(ctx, owner, id) },
		func() (object []byte, err error) {
			err = s.row(ctx, `SELECT object FROM codex.inflight WHERE id = $1 AND owner = $2 AND cancelled < 2`,
				[]any{id, owner}, &object)
			return object, err
		})
}

// Cancel has the process of a background response cancel it, on any host.
func (s *Background) Cancel(ctx context.Context, owner, id string) error {
	err := s.file.Cancel(ctx, owner, id)
	if !errors.Is(err, stored.ErrNotFound) {
		return err
	}
	var process string
	return s.row(ctx, `UPDATE codex.inflight SET cancelled = greatest(cancelled, 1)
		WHERE id = $1 AND owner = $2 AND cancelled < 2 RETURNING process`, []any{id, owner}, &process)
}

// Ordered are the background responses of this process that clients have cancelled or deleted.
func (s *Background) Ordered(ctx context.Context) ([]string, error) { return s.file.Ordered(ctx) }

// obey passes on the orders of clients of other hosts.
func (s *Background) obey(ctx context.Context) {
	some := false
	s.flying.Range(func(any, any) bool {
		some = true
		return false
	})
	if !some {
		return
	}
	type order struct {
		id, owner string
		deleted   bool
	}
	var orders []order
	err := s.rows(ctx, 0, `SELECT id, owner, cancelled = 2 FROM codex.inflight WHERE process = $1 AND cancelled > 0`,
		[]any{s.Logs().Own()}, func() { orders = nil }, func(rows pgx.Rows) error {
			var o order
			err := rows.Scan(&o.id, &o.owner, &o.deleted)
			orders = append(orders, o)
			return err
		})
	if err != nil {
		return // it is asked again in a second
	}
	for _, o := range orders {
		if o.deleted {
			_ = s.file.Delete(ctx, o.owner, o.id)
		} else {
			_ = s.file.Cancel(ctx, o.owner, o.id)
		}
	}
}

// Finish stores a background response of this process that has ended, with its events. The error is stored.ErrNotFound
// if it was deleted meanwhile, or if another host took this one for lost.
func (s *Background) Finish(ctx context.Context, r stored.Response) error {
	if r.Size() > s.Bytes() {
		return stored.ErrNoRoom
	}
	if _, alone := s.alone.Load(r.ID); alone {
		return s.file.Finish(ctx, r)
	}
	e := &entry{Response: r, process: s.Logs().Own()}
	if err := s.readEvents(e); err != nil {
		return err
	}
	err := s.finish(ctx, e, e.process)
	switch {
	case err == nil:
		s.flying.Delete(r.ID)
		return s.file.PassBackground(ctx, r.ID)
	case errors.Is(err, stored.ErrNotFound):
		s.flying.Delete(r.ID)
		return errors.Join(err, s.file.Retract(ctx, r.ID))
	}
	return err
}

// readEvents reads the log of a response, which other hosts get.
func (b *both) readEvents(e *entry) (err error) {
	if e.Log > 0 && e.Log <= maxEvents {
		if e.events, err = b.Logs().Whole(e.ID, e.Log); err != nil {
			return fmt.Errorf("cannot read the events of a response: %w", err)
		}
	}
	return nil
}

// finish stores a background response that a process runs.
func (d *database) finish(ctx context.Context, e *entry, process string) error {
	var there bool
	err := d.store(ctx, e, func(b *pgx.Batch) {
		e.queue(b, finishSQL, process)
		b.Queue(`DELETE FROM codex.inflight WHERE id = $1 AND process = $2`, e.ID, process)
		b.Queue(`SELECT EXISTS (SELECT FROM codex.responses WHERE id = $1 AND process = $2)`, e.ID, e.process).
			QueryRow(scan(&there))
	})
	return missing(there, err)
}

// Log finds the log of a streamed background response.
func (s *Background) Log(ctx context.Context, owner, id string) (stored.Log, error) {
	return last(ctx, s, owner, id,
		func() (stored.Log, error) { return s.file.Log(ctx, owner, id) },
		func() (l stored.Log, err error) {
			var host string
			var leased bool
			err = s.row(ctx, `SELECT '', octet_length(e.body), '', false
				FROM codex.events AS e JOIN codex.responses AS r ON r.id = e.response WHERE r.id = $1 AND r.owner = $2
				UNION ALL
				SELECT i.process, 0, i.host, coalesce(h.until > now(), false)
				FROM codex.inflight AS i LEFT JOIN codex.hosts AS h ON h.name = i.host
				WHERE i.id = $1 AND i.owner = $2 AND i.cancelled < 2 AND i.streamed`, []any{id, owner},
				&l.Process, &l.Size, &host, &leased)
			l.Dead = err == nil && l.Process != "" && s.dead(host, l.Process, leased)
			return l, err
		})
}

// LoseLog gives up the log of a response in flight of this process.
func (s *Background) LoseLog(ctx context.Context, id string) error { return s.file.LoseLog(ctx, id) }

// ReadLog returns a reader of the events of a response after the number after.
func (s *Background) ReadLog(ctx context.Context, owner, id string, after int) (*eventlog.Reader, error) {
	reader, err := s.file.ReadLog(ctx, owner, id, after)
	if !errors.Is(err, eventlog.ErrNone) {
		return reader, err
	}
	var first int
	var events []byte
	err = s.row(ctx, `SELECT e.first, e.body FROM codex.events AS e JOIN codex.responses AS r ON r.id = e.response
		WHERE r.id = $1 AND r.owner = $2`, []any{id, owner}, &first, &events)
	if err == nil {
		return s.Logs().Copy(events, first, after)
	}
	if !errors.Is(err, stored.ErrNotFound) {
		return nil, err
	}
	if _, err := s.InFlight(ctx, owner, id); err == nil {
		return nil, stored.ErrElsewhere
	}
	return nil, eventlog.ErrNone
}

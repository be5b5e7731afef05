package shared

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

// beyond is the number of the last event of a response of a lost host: behind all that a client can have.
const beyond = 1 << 30

// left is a background response without a process.
type left struct {
	entry
	by        string // the process that ran it
	own       bool   // on this host
	cancelled int
	streamed  bool
}

// EndAbandoned ends the background responses of processes of this host that have ended, and of lost hosts. A host is
// lost if its lease is over, although this host could ask the database for longer than a lease.
func (s *Background) EndAbandoned(ctx context.Context, end stored.End) (stored.Abandoned, error) {
	ended, err := s.file.EndAbandoned(ctx, end)
	if err != nil {
		return ended, err
	}
	list, err := s.left(ctx)
	if away(err) {
		return ended, nil // the next call tries again
	}
	for i := range list {
		if err == nil {
			err = s.takeOver(ctx, &list[i], end, &ended)
		}
	}
	return ended, err
}

// left are the responses without a process that the database has. It releases the conversations of such processes.
func (s *Background) left(ctx context.Context) (list []left, err error) {
	processes, err := s.leftProcesses(ctx)
	if err != nil || len(processes) == 0 && !s.steady() {
		return nil, err
	}
	err = s.rows(ctx, 0, `UPDATE codex.conversations SET holder = NULL
		WHERE holder IS NOT NULL AND host = $1 AND process = ANY($2::text[]) RETURNING id`,
		[]any{s.host, processes}, func() {}, func(pgx.Rows) error { return nil })
	if err != nil {
		return nil, err
	}
	err = s.rows(ctx, 0, `SELECT c.id, c.owner, c.process, c.host = $1::text, coalesce(c.previous, ''), c.cancelled,
		c.streamed, c.object FROM codex.inflight AS c
		WHERE c.host = $1::text AND c.process = ANY($3::text[]) OR `+lostHost+` LIMIT 100`,
		[]any{s.host, s.steady(), processes}, func() { list = nil }, func(rows pgx.Rows) error {
			var l left
			err := rows.Scan(&l.ID, &l.Owner, &l.by, &l.own, &l.Previous, &l.cancelled, &l.streamed, &l.Object)
			list = append(list, l)
			return err
		})
	return list, err
}

// leftProcesses are the processes of this host that have ended, and which the database still has.
func (s *Background) leftProcesses(ctx context.Context) ([]string, error) {
	processes := []string{}
	err := s.rows(ctx, 0, `SELECT process FROM codex.inflight WHERE host = $1
		UNION SELECT process FROM codex.conversations WHERE host = $1 AND holder IS NOT NULL`, []any{s.host},
		func() { processes = processes[:0] }, func(rows pgx.Rows) error {
			var process string
			err := rows.Scan(&process)
			if err == nil && !s.Logs().Alive(process) {
				processes = append(processes, process)
			}
			return err
		})
	return processes, err
}

// takeOver ends one response, once, however many hosts call it.
func (s *Background) takeOver(ctx context.Context, l *left, end stored.End, ended *stored.Abandoned) error {
	if l.own && has(ctx, s.file, l) { // it moves into the database
		return nil
	}
	l.Unfinished, l.process = true, s.Logs().Own()
	object, events, err := end(l.Object, beyond, l.cancelled == 1)
	if err != nil {
		return err
	}
	l.Object = object
	if l.streamed {
		l.events, l.first, l.Log = events, beyond, int64(len(events))
	}
	err = s.finish(ctx, &l.entry, l.by)
	switch {
	case errors.Is(err, stored.ErrNotFound) && l.cancelled == 2:
		ended.Deleted++
	case err == nil && l.cancelled == 1:
		ended.Cancelled++
	case err == nil:
		ended.Failed++
	case !errors.Is(err, stored.ErrNotFound): // otherwise another host was faster
		return err
	}
	return nil
}

// has reports whether the file has a response, in flight or ended.
func has(ctx context.Context, file *stored.File, l *left) bool {
	_, err := file.ObjectSize(ctx, l.Owner, l.ID)
	if errors.Is(err, stored.ErrNotFound) {
		_, err = file.InFlight(ctx, l.Owner, l.ID)
	}
	return !errors.Is(err, stored.ErrNotFound)
}

package shared

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"codex-proxy/proxy/stored"
)

const (
	// lookEvery is how often a host looks for orders of others.
	lookEvery = time.Second
	// sweepEvery is how often one of the hosts deletes old responses, and those beyond the limits.
	sweepEvery = time.Minute
	// batchSize bounds the responses that one statement of a sweep deletes.
	batchSize = 100
	// maxDropped bounds how many responses one sweep deletes to make room.
	maxDropped = 10_000
)

// keepOrder obeys orders and releases conversations until ctx ends.
func (s *Store) keepOrder(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		s.undos.again()
		s.obey(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.undos.again()
			return
		}
	}
}

// keepSwept sweeps until ctx ends. A sweep may take minutes, and orders do not wait for it.
func (s *Store) keepSwept(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for failing := false; ; {
		err := s.sweep(ctx)
		if err != nil && !away(err) && !failing && ctx.Err() == nil {
			s.logger.Error("cannot forget old responses", "error", err)
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep deletes responses after their retention, and those beyond the limits, unless another host has swept.
func (s *Store) sweep(ctx context.Context) error {
	var mine bool
	err := s.row(ctx, `UPDATE codex.sweep SET at = now() WHERE at < now() - make_interval(secs => $1::float8)
		RETURNING true`, []any{(sweepEvery - lookEvery).Seconds()}, &mine)
	if errors.Is(err, stored.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = s.expire(ctx, s.file.Limits.Retention)
	}
	if err == nil {
		err = s.makeRoom(ctx, s.file.Limits)
	}
	return err
}

// expire deletes the responses that no other continues, and the conversations, that were last used before the
// retention. A response that loses its last continuation so takes over the time of the last use.
func (d *database) expire(ctx context.Context, retention time.Duration) error {
	for gone := int64(1); gone > 0 && ctx.Err() == nil; {
		if err := d.batch(ctx, 0, func(b *pgx.Batch) {
			b.Queue(`WITH gone AS (SELECT id, previous, owner, used FROM codex.responses AS r
					WHERE used < now() - make_interval(secs => $1::float8) AND `+ends+`
					ORDER BY used LIMIT $2::bigint),
				before AS (UPDATE codex.responses AS b SET used = greatest(b.used, g.used)
					FROM (SELECT previous, owner, max(used) AS used FROM gone GROUP BY previous, owner) AS g
					WHERE b.id = g.previous AND b.owner = g.owner)
				DELETE FROM codex.responses AS r USING gone WHERE r.id = gone.id`, retention.Seconds(), batchSize).
				Exec(func(tag pgconn.CommandTag) error {
					gone = tag.RowsAffected()
					return nil
				})
		}); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		var owner, id string
		err := d.row(ctx, `SELECT owner, id FROM codex.conversations
			WHERE used < now() - make_interval(secs => $1::float8) AND holder IS NULL ORDER BY used LIMIT 1`,
			[]any{retention.Seconds()}, &owner, &id)
		if errors.Is(err, stored.ErrNotFound) {
			return nil
		}
		if err == nil {
			_, err = d.removeConversation(ctx, owner, id)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// ends is the condition that no other response continues r.
const ends = `NOT EXISTS (SELECT FROM codex.responses AS n WHERE n.previous = r.id AND n.owner = r.owner)`

// share counts the responses and conversations of an owner.
type share struct{ count, bytes int64 }

// makeRoom deletes until the rest is within the limits: the owner with the most responses and conversations loses the
// one used longest ago, of a chain the last response.
func (d *database) makeRoom(ctx context.Context, limits stored.Limits) error {
	owners := map[string]share{}
	var all share
	err := d.rows(ctx, 0, `SELECT owner, sum(count)::bigint, sum(bytes)::bigint FROM (
			SELECT owner, count(*) AS count, sum(size) AS bytes FROM codex.responses GROUP BY owner
			UNION ALL
			SELECT owner, count(*), sum(size + octet_length(metadata)) FROM codex.conversations GROUP BY owner
		) AS all_of GROUP BY owner`, nil, func() { clear(owners); all = share{} }, func(rows pgx.Rows) error {
		var owner string
		var has share
		err := rows.Scan(&owner, &has.count, &has.bytes)
		owners[owner], all = has, share{all.count + has.count, all.bytes + has.bytes}
		return err
	})
	for range maxDropped {
		inNumber := all.count > int64(limits.Count)
		if err != nil || ctx.Err() != nil || !inNumber && all.bytes <= limits.Bytes {
			return err
		}
		owner := most(owners, inNumber)
		var freed int64
		freed, err = d.dropOldest(ctx, owner)
		if errors.Is(err, stored.ErrNotFound) { // it has nothing left that is not in use
			all.count, all.bytes = all.count-owners[owner].count, all.bytes-owners[owner].bytes
			delete(owners, owner)
			err = nil
			continue
		}
		all = share{all.count - 1, all.bytes - freed}
		owners[owner] = share{owners[owner].count - 1, owners[owner].bytes - freed}
	}
	return err
}

// most is the owner that has the most, in number or in bytes.
func most(owners map[string]share, inNumber bool) (owner string) {
	var found share
	for name, has := range owners {
		if inNumber && has.count > found.count || !inNumber && has.bytes > found.bytes {
			owner, found = name, has
		}
	}
	return owner
}

// dropOldest deletes the response or the conversation of an owner that was used longest ago, and returns its bytes.
func (d *database) dropOldest(ctx context.Context, owner string) (freed int64, err error) {
	var id string
	var conversation bool
	err = d.row(ctx, `SELECT id, conversation, size FROM (
			(SELECT id, false AS conversation, size, used FROM codex.responses AS r
				WHERE owner = $1 AND `+ends+` ORDER BY used LIMIT 1)
			UNION ALL
			(SELECT id, true, size + octet_length(metadata), used FROM codex.conversations
				WHERE owner = $1 AND holder IS NULL ORDER BY used LIMIT 1)) AS oldest
		ORDER BY used LIMIT 1`, []any{owner}, &id, &conversation, &freed)
	if err != nil {
		return 0, err
	}
	if conversation {
		_, err = d.removeConversation(ctx, owner, id)
	} else {
		_, err = d.remove(ctx, owner, id)
	}
	return freed, err
}

package shared

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// after has all responses behind one.
const after = `WITH RECURSIVE after AS (
	SELECT id, used, broken FROM codex.responses WHERE previous = $1::text AND owner = $2::text
	UNION ALL
	SELECT r.id, r.used, r.broken FROM after JOIN codex.responses AS r ON r.previous = after.id AND r.owner = $2::text) `

// lockChain locks what the deletion of a response changes, in one order, so that deletions in a chain wait for each other
// in one direction.
const lockChain = after + `, chain AS (
		SELECT $1::text AS id UNION SELECT id FROM after WHERE NOT broken
		UNION SELECT previous FROM codex.responses WHERE id = $1::text AND owner = $2::text)
	SELECT FROM codex.responses AS r WHERE r.owner = $2::text AND r.id IN (SELECT id FROM chain)
	ORDER BY r.id COLLATE "C" FOR UPDATE OF r`

// Delete deletes a response; those that continue it cannot be continued then. A response in flight is cancelled.
func (s *Responses) Delete(ctx context.Context, owner, id string) error {
	err := firstDo(s.both,
		func() error {
			found, err := s.remove(ctx, owner, id)
			return missing(found, err)
		},
		func() error { return s.file.Delete(ctx, owner, id) })
	if err == nil { // a background response of this host is in both
		_ = s.file.Delete(ctx, owner, id)
	}
	return err
}

// remove deletes a response of the database, and reports whether there was one.
func (d *database) remove(ctx context.Context, owner, id string) (found bool, err error) {
	var deleted, ordered int64
	err = d.batch(ctx, 0, func(b *pgx.Batch) {
		b.Queue(lockChain, id, owner)
		// The one before it takes over the time of the last use.
		b.Queue(after+`UPDATE codex.responses AS before
			SET used = greatest(before.used, gone.used, (SELECT max(used) FROM after))
			FROM codex.responses AS gone WHERE gone.id = $1::text AND gone.owner = $2::text
			AND before.id = gone.previous AND before.owner = $2::text`, id, owner)
		b.Queue(after+`UPDATE codex.responses SET broken = true
			WHERE id IN (SELECT id FROM after) AND NOT broken`, id, owner)
		b.Queue(`DELETE FROM codex.responses WHERE id = $1 AND owner = $2`, id, owner).Exec(changed(&deleted))
		b.Queue(`UPDATE codex.inflight SET cancelled = 2 WHERE id = $1 AND owner = $2 AND cancelled < 2`, id, owner).
			Exec(changed(&ordered))
	})
	return deleted+ordered > 0, err
}

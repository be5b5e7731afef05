package stored

import (
	"context"
	"database/sql"
)

// Delete deletes a response; those that continue it cannot be continued then. A response in flight is cancelled.
func (s *Responses) Delete(ctx context.Context, owner, id string) error {
	process := ""                                // that runs it
	err := s.write(ctx, func(tx *sql.Tx) error { // it may end at any time between two transactions
		found, err := remove(ctx, tx, owner, id)
		if err == nil && !found {
			process, err = order(ctx, tx, owner, id, deleted)
		}
		return err
	})
	switch {
	case err != nil:
		return explain("a response", err)
	case process != "":
		s.Events.Signal(process)
		return nil
	}
	return s.Events.Remove(id) // the sweep removes its row
}

// remove deletes a response and breaks the chains behind it.
func remove(ctx context.Context, tx *sql.Tx, owner, id string) (found bool, err error) {
	if err := cut(ctx, tx, owner, id); err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, `DELETE FROM responses WHERE id = ? AND owner = ?`, id, owner)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// after selects the ids of all responses behind one, or only responses with an unbroken chain. Its parameters are the
// id, the owner, and twice whether it selects all.
const after = `WITH RECURSIVE after (id, owner) AS (
	SELECT id, owner FROM links WHERE previous = ? AND owner = ? AND (? OR NOT broken)
	UNION ALL
	SELECT links.id, links.owner
		FROM after JOIN links ON links.previous = after.id AND links.owner = after.owner WHERE ? OR NOT broken
) `

// cut separates a response from those behind it: the one before it takes over the time
// of their last use, and their chains are broken. Each chain breaks once: if a response
// is broken, all behind it are.
func cut(ctx context.Context, tx *sql.Tx, owner, id string) error {
	_, err := tx.ExecContext(ctx, after+`UPDATE links
		SET used = max(used, IFNULL((SELECT max(used) FROM after JOIN links USING (id)), 0))
		WHERE id = ? AND next > 0 AND EXISTS (SELECT 1 FROM links AS before WHERE before.id = links.previous)`,
		id, owner, true, true, id)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, after+`UPDATE links SET broken = 1 WHERE id IN (SELECT id FROM after)`,
		id, owner, false, false)
	return err
}

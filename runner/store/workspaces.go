package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"codex-proxy/runner/workspace"
)

// Lease returns the workspace that the session leases. If it has none, choose chooses one among all.
func (s Workspaces) Lease(ctx context.Context, id, repository string, now time.Time,
	choose func(workspace.Pool) (int, error)) (number int, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE leases SET heartbeat = ? WHERE session = ? RETURNING workspace`,
			nanos(now), id).Scan(&number)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		all, err := pool(ctx, tx)
		if err == nil {
			number, err = choose(all)
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO workspaces (number, repository, released, bytes) VALUES (?, ?, 0, 0)
			ON CONFLICT DO UPDATE SET repository = excluded.repository`, number, repository)
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO leases (workspace, session, heartbeat) VALUES (?, ?, ?)`,
				number, id, nanos(now))
		}
		return err
	})
	return number, err
}

func pool(ctx context.Context, tx *sql.Tx) (workspace.Pool, error) {
	rows, err := tx.QueryContext(ctx, `SELECT number, repository, ifnull(session, ''), ifnull(heartbeat, released), bytes
		FROM workspaces LEFT JOIN leases ON workspace = number ORDER BY number`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all workspace.Pool
	for rows.Next() {
		var slot workspace.Slot
		var heartbeat int64
		if err := rows.Scan(&slot.Number, &slot.Repository, &slot.Session, &heartbeat, &slot.Bytes); err != nil {
			return nil, err
		}
		slot.Heartbeat = at(heartbeat)
		all = append(all, slot)
	}
	return all, rows.Err()
}

// Pool returns all workspaces.
func (s Workspaces) Pool(ctx context.Context) (all workspace.Pool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		all, err = pool(ctx, tx)
		return err
	})
	return all, err
}

// Remove forgets a workspace after its files were removed. The error is ErrState if a session leases it.
func (s Workspaces) Remove(ctx context.Context, number int) error {
	return changed(s.db.ExecContext(ctx, `DELETE FROM workspaces WHERE number = ?1 AND NOT EXISTS
		(SELECT 1 FROM leases WHERE workspace = ?1)`, number))
}

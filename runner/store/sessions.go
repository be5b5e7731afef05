package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"codex-proxy/runner/api/wire"
)

// New is a session to create. Its ID, owner, time and commands are in the wire.Session.
type New struct {
	Session wire.Session
	// Repository is the key of the repository that the session uses, or "".
	Repository string
	Hold       time.Duration
	Idle       time.Duration     // of the session; 0: the setting
	Commands   []wire.NewCommand // with all limits
}

// Create stores a session with its commands, which get the numbers from 1.
func (s Sessions) Create(ctx context.Context, n New) error {
	secrets, err := json.Marshal(n.Session.Secrets)
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		v := n.Session
		_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, owner, owner_name, state, created, used, repository, ref,
			commit_id, patch, environment, network, secrets, hold, repository_key, idle)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			v.ID, v.Owner.UID, v.Owner.Name, wire.SessionActive, nanos(v.Created), nanos(v.Created), v.Repository, v.Ref,
			v.Commit, v.Patch, v.Environment, v.Network, string(secrets), n.Hold, n.Repository, n.Idle)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE repositories SET used = ? WHERE key = ?`, nanos(v.Created),
				n.Repository)
		}
		for _, c := range n.Commands {
			if err == nil {
				_, err = add(ctx, tx, v.ID, c, v.Created)
			}
		}
		return err
	})
}

// Close closes a session after all its commands have ended, and ends its lease; bytes is the size of its
// workspace. The error is ErrState if a command has not ended, or if the session is closed.
func (s Sessions) Close(ctx context.Context, id string, bytes int64, now time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx, `UPDATE sessions SET state = ?, used = ? WHERE id = ? AND state = ?`,
			wire.SessionClosed, nanos(now), id, wire.SessionIdle))
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE workspaces SET released = ?, bytes = ?
				WHERE number IN (SELECT workspace FROM leases WHERE session = ?)`, nanos(now), bytes, id)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM leases WHERE session = ?`, id)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO sweeps (session) VALUES (?)`, id)
		}
		return err
	})
}

// Delete removes closed sessions, and returns those that it has removed.
func (s Sessions) Delete(ctx context.Context, ids []string) (removed []string, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			err := changed(tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = ? AND state = ?`, id,
				wire.SessionClosed))
			switch {
			case err == nil:
				removed = append(removed, id)
			case !errors.Is(err, ErrState):
				return err
			}
		}
		return nil
	})
	return removed, err
}

// Sweeps returns the closed or deleted sessions that still have a home to be removed.
func (s Sessions) Sweeps(ctx context.Context) ([]string, error) {
	rows, err := s.reads.QueryContext(ctx, `SELECT session FROM sweeps`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, rows.Err()
}

// Swept records that the home of a session is removed.
func (s Sessions) Swept(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM sweeps WHERE session = ?`, id)
	return err
}

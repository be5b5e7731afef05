package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/workspace"
)

// Move changes the state of a command. The error is ErrState if it is not in the state from.
func (s *Store) Move(ctx context.Context, id string, number int, from, to wire.CommandState) error {
	return changed(s.db.ExecContext(ctx, `UPDATE commands SET state = ? WHERE session = ? AND number = ? AND state = ?`,
		to, id, number, from))
}

// Cancel records the user that cancels a command. The first one stays. The error is ErrState if the command has ended.
func (s *Store) Cancel(ctx context.Context, id string, number int, by string) error {
	return changed(s.db.ExecContext(ctx, `UPDATE commands SET cancelled_by = iif(cancelled_by = '', ?, cancelled_by)
		WHERE session = ? AND number = ? AND state <> 'ended'`, by, id, number))
}

// Ending is the end of a command.
type Ending struct {
	Started, Ended time.Time
	Outcome        outcome.Outcome
	Usage          wire.Usage
	Invocation     string
	Artifacts      []artifact.File
	ArtifactsFault string // why not all were kept
}

// Hold records how a command ended if its unit stays. Its End follows; the error is ErrState if End was called before.
func (s *Store) Hold(ctx context.Context, id string, number int, e Ending) error {
	return s.write(ctx, func(tx *sql.Tx) error { return e.store(ctx, tx, id, number, wire.CommandHeld) })
}

// store sets the state and the end of a command that has not ended.
func (e Ending) store(ctx context.Context, tx *sql.Tx, id string, number int, state wire.CommandState) error {
	verdict, err := json.Marshal(e.Outcome)
	if err != nil {
		return err
	}
	usage, err := json.Marshal(e.Usage)
	if err != nil {
		return err
	}
	return changed(tx.ExecContext(ctx, `UPDATE commands SET state = ?, started = ?, ended = ?, outcome = ?, usage = ?,
		invocation = ?, artifacts_fault = ? WHERE session = ? AND number = ? AND state <> 'ended'`,
		state, nanos(e.Started), nanos(e.Ended), string(verdict), string(usage), e.Invocation, e.ArtifactsFault,
		id, number))
}

// End records the end of a command; a session without another command becomes idle. The error is ErrState if the
// command has ended before. now is at or after the end: a command may have been held.
func (s *Store) End(ctx context.Context, id string, number int, e Ending, now time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		err := e.store(ctx, tx, id, number, wire.CommandEnded)
		if err != nil {
			return err
		}
		if err := addArtifacts(ctx, tx, id, number, e); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE sessions SET state = ?, used = ? WHERE id = ? AND state = ? AND NOT EXISTS
			(SELECT 1 FROM commands WHERE session = id AND state <> 'ended')`,
			wire.SessionIdle, nanos(now), id, wire.SessionActive)
		if err == nil {
			_, err = tx.ExecContext(ctx, `UPDATE leases SET heartbeat = ? WHERE session = ?`, nanos(now), id)
		}
		return err
	})
}

// CloseSession closes a session after all its commands have ended, and ends its lease; bytes is the size of its
// workspace. The error is ErrState if a command has not ended, or if the session is closed.
func (s *Store) CloseSession(ctx context.Context, id string, bytes int64, now time.Time) error {
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
func (s *Store) Delete(ctx context.Context, ids []string) (removed []string, err error) {
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

// Lease returns the workspace that the session leases. If it has none, choose chooses one among all.
func (s *Store) Lease(ctx context.Context, id, repository string, now time.Time,
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

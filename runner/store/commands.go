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
)

// Move changes the state of a command. The error is ErrState if it is not in the state from.
func (s Commands) Move(ctx context.Context, id string, number int, from, to wire.CommandState) error {
	return changed(s.db.ExecContext(ctx, `UPDATE commands SET state = ? WHERE session = ? AND number = ? AND state = ?`,
		to, id, number, from))
}

// Begin records that a command runs, since the time started. The error is ErrState if the command was not starting.
func (s Commands) Begin(ctx context.Context, id string, number int, started time.Time) error {
	return changed(s.db.ExecContext(ctx, `UPDATE commands SET state = ?, started = ?
		WHERE session = ? AND number = ? AND state = ?`,
		wire.CommandRunning, nanos(started), id, number, wire.CommandStarting))
}

// Cancel records the user that cancels a command. The first one stays. The error is ErrState if the command has ended.
func (s Commands) Cancel(ctx context.Context, id string, number int, by string) error {
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
func (s Commands) Hold(ctx context.Context, id string, number int, e Ending) error {
	return s.write(ctx, func(tx *sql.Tx) error { return e.store(ctx, tx, id, number, wire.CommandHeld) })
}

// store sets the state and the end of a command that has not ended. Without a start, the one from Begin stays: the main
// process was killed before it wrote its result.
func (e Ending) store(ctx context.Context, tx *sql.Tx, id string, number int, state wire.CommandState) error {
	verdict, err := json.Marshal(e.Outcome)
	if err != nil {
		return err
	}
	usage, err := json.Marshal(e.Usage)
	if err != nil {
		return err
	}
	return changed(tx.ExecContext(ctx, `UPDATE commands SET state = ?, started = iif(? = 0, started, ?), ended = ?,
		outcome = ?, usage = ?, invocation = ?, artifacts_fault = ? WHERE session = ? AND number = ? AND state <> 'ended'`,
		state, nanos(e.Started), nanos(e.Started), nanos(e.Ended), string(verdict), string(usage), e.Invocation, e.ArtifactsFault,
		id, number))
}

// End records the end of a command; a session without another command becomes idle. The error is ErrState if the
// command has ended before. now is at or after the end: a command may have been held.
func (s Commands) End(ctx context.Context, id string, number int, e Ending, now time.Time) error {
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

// Add stores the next command of a session and returns its number. The error is ErrState if the session is closed.
func (s Commands) Add(ctx context.Context, id string, c wire.NewCommand, now time.Time) (number int, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx, `UPDATE sessions SET state = ?, used = ? WHERE id = ? AND state <> ?`,
			wire.SessionActive, nanos(now), id, wire.SessionClosed))
		if err == nil {
			number, err = add(ctx, tx, id, c, now)
		}
		return err
	})
	return number, err
}

func add(ctx context.Context, tx *sql.Tx, id string, c wire.NewCommand, now time.Time) (number int, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return 0, err
	}
	state := wire.CommandQueued
	if c.Stdin {
		state = wire.CommandAwaitingStdin
	}
	err = tx.QueryRowContext(ctx, `UPDATE sessions SET commands = commands + 1 WHERE id = ? RETURNING commands`,
		id).Scan(&number)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO commands (session, number, state, command, created) VALUES (?, ?, ?, ?, ?)`,
		id, number, state, string(text), nanos(now))
	return number, err
}

// Live is a command that has not ended.
type Live struct {
	Session     string
	Number      int
	Owner       uint32
	State       wire.CommandState
	Repository  string // key
	URL         string // of the repository: relative URLs of submodules begin there
	Commit      string
	Patch       string // sha256
	Environment string // as the session asked for it
	Network     bool
	CancelledBy string
	Secrets     []string // names
	Hold        time.Duration
	Leased      bool // the session has a workspace
	Command     wire.NewCommand
}

const selectLive = `SELECT s.id, c.number, s.owner, c.state, s.repository_key,
	ifnull(r.url, ''), s.commit_id, s.patch, s.environment, s.network, c.cancelled_by, s.secrets,
	s.hold, EXISTS (SELECT 1 FROM leases WHERE session = s.id), c.command
	FROM commands AS c JOIN sessions AS s ON s.id = c.session
	LEFT JOIN repositories AS r ON r.key = s.repository_key `

func scanLive(row interface{ Scan(...any) error }) (l Live, err error) {
	var secrets, command []byte
	err = row.Scan(&l.Session, &l.Number, &l.Owner, &l.State, &l.Repository, &l.URL, &l.Commit, &l.Patch,
		&l.Environment,
		&l.Network, &l.CancelledBy, &secrets, &l.Hold, &l.Leased, &command)
	if err == nil {
		err = errors.Join(json.Unmarshal(secrets, &l.Secrets), json.Unmarshal(command, &l.Command))
	}
	return l, err
}

// Live returns the commands that have not ended, in the order in which they were made.
func (s Commands) Live(ctx context.Context) ([]Live, error) {
	return s.live(ctx, `WHERE c.state <> 'ended' ORDER BY c.created, s.seq, c.number`)
}

// AwaitingStdin returns the commands that have waited for their standard input since before a time, by session and
// number.
func (s Commands) AwaitingStdin(ctx context.Context, before time.Time) ([]Live, error) {
	return s.live(ctx, `WHERE c.state = ? AND c.created < ? ORDER BY s.seq, c.number`, wire.CommandAwaitingStdin,
		nanos(before))
}

func (s Commands) live(ctx context.Context, where string, args ...any) ([]Live, error) {
	rows, err := s.reads.QueryContext(ctx, selectLive+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Live
	for rows.Next() {
		l, err := scanLive(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, rows.Err()
}

// Find returns one command, whether it has ended or not.
func (s Commands) Find(ctx context.Context, id string, number int) (Live, error) {
	l, err := scanLive(s.reads.QueryRowContext(ctx, selectLive+`WHERE c.session = ? AND c.number = ?`, id, number))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return l, err
}

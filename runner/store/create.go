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
	Commands   []wire.NewCommand // with all limits
}

// Create stores a session with its commands, which get the numbers from 1.
func (s *Store) Create(ctx context.Context, n New) error {
	secrets, err := json.Marshal(n.Session.Secrets)
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		v := n.Session
		_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, owner, owner_name, state, created, used, repository, ref,
			commit_id, patch, environment, network, secrets, hold, repository_key)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			v.ID, v.Owner.UID, v.Owner.Name, wire.SessionActive, nanos(v.Created), nanos(v.Created), v.Repository, v.Ref,
			v.Commit, v.Patch, v.Environment, v.Network, string(secrets), n.Hold, n.Repository)
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

// Add stores the next command of a session and returns its number. The error is ErrState if the session is closed.
func (s *Store) Add(ctx context.Context, id string, c wire.NewCommand, now time.Time) (number int, err error) {
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
func (s *Store) Live(ctx context.Context) ([]Live, error) {
	return s.live(ctx, `WHERE c.state <> 'ended' ORDER BY c.created, s.seq, c.number`)
}

// AwaitingStdin returns the commands that have waited for their standard input since before a time, by session and
// number.
func (s *Store) AwaitingStdin(ctx context.Context, before time.Time) ([]Live, error) {
	return s.live(ctx, `WHERE c.state = ? AND c.created < ? ORDER BY s.seq, c.number`, wire.CommandAwaitingStdin,
		nanos(before))
}

func (s *Store) live(ctx context.Context, where string, args ...any) ([]Live, error) {
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

// Command returns one command, whether it has ended or not.
func (s *Store) Command(ctx context.Context, id string, number int) (Live, error) {
	l, err := scanLive(s.reads.QueryRowContext(ctx, selectLive+`WHERE c.session = ? AND c.number = ?`, id, number))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return l, err
}

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/outcome"
)

// Viewer is a user. It sees its own sessions.
type Viewer struct {
	UID uint32
	All bool // sees the sessions of all users
}

// Page selects sessions.
type Page struct {
	Viewer
	State  wire.SessionState // "" is any
	Limit  int
	Before string // Next of the page before; "" is the first page
}

const selectSessions = `SELECT s.seq, s.id, s.owner, s.owner_name, s.state, s.created, s.used, s.repository, s.ref,
	s.commit_id, s.patch, s.environment, s.network, s.secrets FROM sessions AS s `

// List returns a page of sessions, the newest first, each with its last command. The Viewer selects their owners.
func (s Sessions) List(ctx context.Context, p Page) (wire.Sessions, error) {
	page := wire.Sessions{Sessions: []wire.Session{}}
	before := int64(1)<<62 - 1
	if p.Before != "" {
		n, err := strconv.ParseInt(p.Before, 36, 64)
		if err != nil {
			return page, ErrNotFound
		}
		before = n
	}
	where, args := `WHERE s.seq < ?`, []any{before}
	if !p.All {
		where, args = where+` AND s.owner = ?`, append(args, p.UID)
	}
	if p.State != "" {
		where, args = where+` AND s.state = ?`, append(args, p.State)
	}
	last, err := scanSessions(ctx, s.reads, &page.Sessions, where+` ORDER BY s.seq DESC LIMIT ?`,
		append(args, p.Limit)...)
	if err == nil && len(page.Sessions) == p.Limit {
		page.Next = strconv.FormatInt(last, 36)
	}
	if err != nil || len(page.Sessions) == 0 {
		return page, err
	}
	return page, s.lastCommands(ctx, page.Sessions, last, where, args)
}

// maxListed bounds the arguments and the directory of each command of a list, in bytes: a user may give a command
// megabytes of them. Find has all.
const maxListed = 4 << 10

// lastCommands adds the last command of each session. One statement reads them all.
func (s Sessions) lastCommands(ctx context.Context, sessions []wire.Session, oldest int64, where string,
	args []any) error {
	rows, err := s.reads.QueryContext(ctx,
		selectCommands+` JOIN sessions AS s ON s.id = c.session AND s.commands = c.number `+
			where+` AND s.seq >= ?`, append(args, oldest)...)
	if err != nil {
		return err
	}
	last := make(map[string]wire.Command, len(sessions))
	if err := scanCommands(rows, func(id string, c wire.Command) {
		c.Args, c.Directory = wire.Short(c.Args, maxListed), wire.Short([]string{c.Directory}, maxListed)[0]
		last[id] = c
	}); err != nil {
		return err
	}
	for i, session := range sessions {
		if c, ok := last[session.ID]; ok {
			sessions[i].Commands = append(sessions[i].Commands, c)
		}
	}
	return nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func scanSessions(ctx context.Context, from querier, to *[]wire.Session, where string,
	args ...any) (last int64, err error) {
	rows, err := from.QueryContext(ctx, selectSessions+where, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			v             wire.Session
			created, used int64
			secrets       []byte
		)
		err := rows.Scan(&last, &v.ID, &v.Owner.UID, &v.Owner.Name, &v.State, &created, &used, &v.Repository, &v.Ref,
			&v.Commit, &v.Patch, &v.Environment, &v.Network, &secrets)
		if err == nil && len(secrets) > len("null") {
			err = json.Unmarshal(secrets, &v.Secrets)
		}
		if err != nil {
			return 0, err
		}
		v.Created, v.Commands = at(created), []wire.Command{}
		if v.State == wire.SessionClosed {
			v.Closed = at(used)
		}
		*to = append(*to, v)
	}
	return last, rows.Err()
}

const selectCommands = `SELECT c.session, c.number, c.state, c.command, c.created, c.started, c.ended, c.outcome, c.usage,
	c.invocation, c.artifacts_fault FROM commands AS c `

// scanCommands closes the rows.
func scanCommands(rows *sql.Rows, take func(session string, c wire.Command)) error {
	defer rows.Close()
	for rows.Next() {
		var (
			id                      string
			c                       wire.Command
			created, started, ended int64
			command, verdict, usage []byte
			full                    wire.NewCommand
		)
		err := rows.Scan(&id, &c.Number, &c.State, &command, &created, &started, &ended, &verdict, &usage,
			&c.Invocation,
			&c.ArtifactsFault)
		if err == nil {
			err = json.Unmarshal(command, &full)
		}
		if err == nil && len(verdict) > 0 {
			c.Outcome, c.Usage = &outcome.Outcome{}, &wire.Usage{}
			err = errors.Join(json.Unmarshal(verdict, c.Outcome), json.Unmarshal(usage, c.Usage))
		}
		if err != nil {
			return err
		}
		c.Args, c.Directory, c.Limits = full.Args, full.Directory, full.Limits
		c.Created, c.Started, c.Ended = at(created), at(started), at(ended)
		take(id, c)
	}
	return rows.Err()
}

// Find returns a session with all its commands.
func (s Sessions) Find(ctx context.Context, v Viewer, id string) (wire.Session, error) {
	one, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // both statements see the same moment
	if err != nil {
		return wire.Session{}, err
	}
	defer one.Rollback() //nolint:errcheck // it has changed nothing
	var found []wire.Session
	_, err = scanSessions(ctx, one, &found, `WHERE s.id = ? AND (s.owner = ? OR ?)`, id, v.UID, v.All)
	if err != nil {
		return wire.Session{}, err
	}
	if len(found) == 0 {
		return wire.Session{}, ErrNotFound
	}
	rows, err := one.QueryContext(ctx, selectCommands+`WHERE c.session = ? ORDER BY c.number`, id)
	if err != nil {
		return wire.Session{}, err
	}
	session := found[0]
	return session, scanCommands(rows, func(_ string, c wire.Command) {
		session.Commands = append(session.Commands,
			c)
	})
}

// Idle is a session that waits for its next command, or that is closed.
type Idle struct {
	ID   string
	Used time.Time // since when
	// Idle is how long it stays open without a command; 0: the setting.
	Idle time.Duration
}

// In returns the sessions in that state, the one that is longest in it first.
func (s Sessions) In(ctx context.Context, v Viewer, state wire.SessionState) ([]Idle, error) {
	rows, err := s.reads.QueryContext(ctx,
		`SELECT id, used, idle FROM sessions WHERE state = ? AND (owner = ? OR ?) ORDER BY used, seq`, state, v.UID, v.All)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Idle
	for rows.Next() {
		var i Idle
		var used int64
		if err := rows.Scan(&i.ID, &used, &i.Idle); err != nil {
			return nil, err
		}
		i.Used = at(used)
		all = append(all, i)
	}
	return all, rows.Err()
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// EnvironmentState is the state of an environment.
type EnvironmentState string

// The states of an environment.
const (
	EnvironmentBuilding EnvironmentState = "building"
	EnvironmentReady    EnvironmentState = "ready"
	EnvironmentRemoving EnvironmentState = "removing"
)

// Environment is an environment that is on the disk, is being built or is being removed.
type Environment struct {
	Key, Provider string
	State         EnvironmentState
	Bytes         int64     // on the disk; 0 until it is ready
	Used          time.Time // when a command last asked for it or ended with it
	Leased        bool      // a command that has not ended uses it; a snapshot, an open session
	Family        string    // of a snapshot
}

// leased is whether a command that has not ended uses an environment; for a snapshot, an open session.
const leased = `EXISTS (SELECT 1 FROM commands AS c JOIN sessions AS s ON s.id = c.session
	WHERE c.environment <> '' AND c.environment = environments.key AND
		(c.state <> 'ended' OR environments.provider = 'setup' AND s.state <> 'closed'))`

// List returns all of them, the least recently used first.
func (s Environments) List(ctx context.Context) ([]Environment, error) {
	rows, err := s.reads.QueryContext(ctx, `SELECT key, provider, state, bytes,
		max(used, ifnull((SELECT max(ended) FROM commands WHERE environment <> '' AND environment = key), 0)) AS last,
		`+leased+`, family FROM environments ORDER BY last, key`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Environment
	for rows.Next() {
		var e Environment
		var used int64
		if err := rows.Scan(&e.Key, &e.Provider, &e.State, &e.Bytes, &used, &e.Leased, &e.Family); err != nil {
			return nil, err
		}
		e.Used = at(used)
		all = append(all, e)
	}
	return all, rows.Err()
}

// Lease has a command that has not ended use an environment until its end, and returns its state: "" if it
// does not exist. The error is ErrState if the command has ended.
func (s Environments) Lease(ctx context.Context, id string, number int, key string,
	now time.Time) (state EnvironmentState, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx, `UPDATE commands SET environment = ? WHERE session = ? AND number = ? AND
			state <> 'ended'`, key, id, number))
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `UPDATE environments SET used = ? WHERE key = ? RETURNING state`, nanos(now),
			key).Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return state, err
}

// Of returns the key of the environment that a command has asked for; "" if it has not.
func (s Environments) Of(ctx context.Context, id string, number int) (key string, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT environment FROM commands WHERE session = ? AND number = ?`, id,
		number).Scan(&key)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return key, err
}

// Last returns the key of the environment of the last session that was made like this one: by its owner,
// with the same repository, commit, patch and request for an environment. It is the first command's environment, as
// nothing had changed its workspace; "" without one.
func (s Environments) Last(ctx context.Context, like New) (key string, err error) {
	v := like.Session
	err = s.reads.QueryRowContext(ctx, `SELECT c.environment FROM sessions AS s
		JOIN commands AS c ON c.session = s.id AND c.number = 1 AND c.environment <> ''
		WHERE s.owner = ? AND s.repository_key = ? AND s.commit_id = ? AND s.patch = ? AND s.environment = ?
		ORDER BY s.seq DESC LIMIT 1`, v.Owner.UID, like.Repository, v.Commit, v.Patch, v.Environment).Scan(&key)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return key, err
}

// Plain reports whether no file of a commit is one that a set-up follows from, as far as the store knows.
func (s Environments) Plain(ctx context.Context, repository, commit string) (plain bool, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT plain FROM commits WHERE repository = ? AND commit_id = ?`, repository,
		commit).Scan(&plain)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return plain, err
}

// Begin records that an environment is built.
func (s Environments) Begin(ctx context.Context, key, provider string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO environments (key, provider, state, bytes, used) VALUES (?, ?, ?, 0, ?)
		ON CONFLICT DO UPDATE SET provider = excluded.provider, state = excluded.state, bytes = 0, used = excluded.used`,
		key, provider, EnvironmentBuilding, nanos(now))
	return err
}

// Ready records that an environment is ready.
func (s Environments) Ready(ctx context.Context, key string, bytes int64) error {
	return changed(s.db.ExecContext(ctx, `UPDATE environments SET state = ?, bytes = ? WHERE key = ?`, EnvironmentReady,
		bytes, key))
}

// Snapshot records that the snapshot of a set-up is ready.
func (s Environments) Snapshot(ctx context.Context, key, family string, bytes int64, now time.Time) error {
	err := s.Begin(ctx, key, setUp, now)
	if err == nil {
		err = changed(s.db.ExecContext(ctx, `UPDATE environments SET state = ?, bytes = ?, family = ? WHERE key = ?`,
			EnvironmentReady, bytes, family, key))
	}
	return err
}

// setUp is the provider of snapshots.
const setUp = "setup"

// Remove records that an environment is removed. The error is ErrState if a command uses it.
func (s Environments) Remove(ctx context.Context, key string) error {
	return changed(s.db.ExecContext(ctx, `UPDATE environments SET state = ? WHERE key = ? AND NOT `+leased,
		EnvironmentRemoving, key))
}

// Forget records that the disk has the environment no more.
func (s Environments) Forget(ctx context.Context, key string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM environments WHERE key = ?`, key)
	return err
}

// Facts returns the facts that commands of the owner reported last, as JSON; nil without any.
func (s Environments) Facts(ctx context.Context, owner uint32) (facts []byte, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT facts FROM facts WHERE owner = ?`, owner).Scan(&facts)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return facts, err
}

// KeepFacts replaces the facts of the owner.
func (s Environments) KeepFacts(ctx context.Context, owner uint32, facts []byte) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO facts (owner, facts) VALUES (?, ?)
		ON CONFLICT DO UPDATE SET facts = excluded.facts WHERE facts <> excluded.facts`, owner, string(facts))
	return err
}

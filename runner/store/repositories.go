package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Repository is a mirror with its origin.
type Repository struct {
	Key     string
	Owner   uint32    // user ID
	URL     string    // of a local one: where relative URLs of its submodules begin, or ""
	Path    string    // of a local one, of which clients send bundles; "" of others
	Fetched time.Time // zero if there is no mirror that can be used
	Used    time.Time
	Bytes   int64 // on the disk, after the last fetch
	Damaged bool  // the next fetch makes the mirror anew
	InUse   bool  // by a session that is not closed
}

// Name is the URL or the local path.
func (r Repository) Name() string {
	if r.Path != "" {
		return r.Path
	}
	return r.URL
}

const selectRepositories = `SELECT key, owner, url, path, fetched, used, bytes, damaged, EXISTS
	(SELECT 1 FROM sessions WHERE repository_key = key AND repository_key <> '' AND state <> 'closed') FROM repositories `

func scanRepository(row interface{ Scan(...any) error }) (r Repository, err error) {
	var fetched, used int64
	err = row.Scan(&r.Key, &r.Owner, &r.URL, &r.Path, &fetched, &used, &r.Bytes, &r.Damaged, &r.InUse)
	r.Fetched, r.Used = at(fetched), at(used)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return r, err
}

// Add stores a repository, unless there is one with its key. The URL of a local one may change.
func (s Repositories) Add(ctx context.Context, r Repository) error {
	known, err := s.Find(ctx, r.Key)
	if err == nil && known.URL == r.URL || err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	_, err = s.db.ExecContext(ctx, `INSERT INTO repositories (key, owner, url, path, used) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET url = excluded.url`, r.Key, r.Owner, r.URL, r.Path, nanos(r.Used))
	return err
}

// Find returns the repository with the key.
func (s Repositories) Find(ctx context.Context, key string) (Repository, error) {
	return scanRepository(s.reads.QueryRowContext(ctx, selectRepositories+`WHERE key = ?`, key))
}

// List returns the repositories that the viewer sees, the least recently used first.
func (s Repositories) List(ctx context.Context, v Viewer) ([]Repository, error) {
	rows, err := s.reads.QueryContext(ctx, selectRepositories+`WHERE owner = ? OR ? ORDER BY used, key`, v.UID, v.All)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Repository
	for rows.Next() {
		r, err := scanRepository(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// mostCommits is how many commits of a repository are kept; the others can be asked for again.
const mostCommits = 1000

// Commit is one that a mirror has.
type Commit struct {
	ID    string
	Plain bool // no file of it is one that a set-up follows from
}

// Fetched records that the mirror of a repository has a commit, and its size.
func (s Repositories) Fetched(ctx context.Context, key string, commit Commit, bytes int64, now time.Time) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx,
			`UPDATE repositories SET fetched = ?, used = ?, bytes = ?, damaged = 0 WHERE key = ?`,
			nanos(now), nanos(now), bytes, key))
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO commits (repository, commit_id, seen, plain) VALUES (?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET seen = excluded.seen, plain = excluded.plain`, key, commit.ID, nanos(now), commit.Plain)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM commits WHERE repository = ?1 AND commit_id IN (SELECT commit_id
				FROM commits WHERE repository = ?1 ORDER BY seen DESC LIMIT -1 OFFSET ?2)`, key, mostCommits)
		}
		return err
	})
}

// Knows reports whether the mirror of the repository has the commit, as far as the store knows.
func (s Repositories) Knows(ctx context.Context, key, commit string) (known bool, err error) {
	err = s.reads.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM commits WHERE repository = ? AND commit_id = ?)`,
		key, commit).Scan(&known)
	return known, err
}

// Commits returns the commits of a repository that were fetched last, at most limit.
func (s Repositories) Commits(ctx context.Context, key string, limit int) ([]string, error) {
	rows, err := s.reads.QueryContext(ctx,
		`SELECT commit_id FROM commits WHERE repository = ? ORDER BY seen DESC LIMIT ?`,
		key, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		var commit string
		if err := rows.Scan(&commit); err != nil {
			return nil, err
		}
		all = append(all, commit)
	}
	return all, rows.Err()
}

// Damaged records that the mirror of a repository lacks something: no commit of it is known any more.
func (s Repositories) Damaged(ctx context.Context, key string) error {
	return s.forget(ctx, key, `UPDATE repositories SET fetched = 0, damaged = 1 WHERE key = ?`)
}

// Abandon forgets all commits of a repository before its mirror is removed. The error is ErrState if a session that is
// not closed uses it.
func (s Repositories) Abandon(ctx context.Context, key string) error {
	return s.forget(ctx, key, `UPDATE repositories SET fetched = 0 WHERE key = ? AND NOT EXISTS
		(SELECT 1 FROM sessions WHERE repository_key = key AND repository_key <> '' AND state <> 'closed')`)
}

func (s Repositories) forget(ctx context.Context, key, update string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		err := changed(tx.ExecContext(ctx, update, key))
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM commits WHERE repository = ?`, key)
		}
		return err
	})
}

// Remove forgets a repository after its mirror was removed.
func (s Repositories) Remove(ctx context.Context, key string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM repositories WHERE key = ? AND fetched = 0`, key)
	return err
}

// Package stored keeps responses for the clients that want to come back to
// them: in a file of the service's own, so that they outlive it and every
// worker, and go when their time is over.
package stored

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"codex-proxy/proxy/sqlite"
)

// Why something is not there.
var (
	// ErrNotFound means that there is no such response or item, or that it is
	// another owner's, or that its time is over.
	ErrNotFound = errors.New("not stored")
	// ErrBroken means that a response is there, but one before it is not.
	ErrBroken = errors.New("an earlier response of the chain is not stored any more")
	// ErrTooLong means that the history of a response is larger than any worker
	// would take.
	ErrTooLong = errors.New("the history is too long")

	errNoRoom = errors.New("it is too large for the limit of all responses together (response_storage)")
)

// MaxHistory bounds what is read of a chain, in bytes; codex takes messages of
// up to 64 MiB.
const MaxHistory = 60 << 20

// Limits say when responses go. The ones used longest ago go first, of the owner
// that has the most; to be continued is to be used.
type Limits struct {
	Retention time.Duration // after the last use
	Bytes     int64         // of all responses together
	Count     int
}

// Response is what is kept of one.
type Response struct {
	ID, Owner string // owner is the name of an API key
	Previous  string // id of the response that it continues; empty: none
	Worker    string // the worker that answered
	Object    []byte // JSON, as it was answered
	Input     []Item // without that of the responses before it
	Output    []Item
}

// Item is one item of input or output.
type Item struct {
	ID     string // empty: it cannot be referred to
	JSON   json.RawMessage
	Worker string // of output: the worker that made it
}

// Store is a file of responses. Two processes may use it at the same time. Its
// methods are safe for concurrent use.
type Store struct {
	db     *sql.DB // what writes waits for what writes alone
	reads  *sql.DB
	limits Limits
	log    *slog.Logger
}

const schema = `
CREATE TABLE responses (
	id       TEXT PRIMARY KEY,
	owner    TEXT NOT NULL,
	previous TEXT,
	worker   TEXT NOT NULL,
	used     INTEGER NOT NULL, -- Unix milliseconds
	size     INTEGER NOT NULL, -- bytes
	object   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX responses_used ON responses (used);
CREATE TABLE items (
	response TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
	position INTEGER NOT NULL,
	made     INTEGER NOT NULL, -- whether it is output
	id       TEXT NOT NULL,
	body     BLOB NOT NULL,
	PRIMARY KEY (response, position)
) STRICT;
CREATE INDEX items_id ON items (id);
CREATE TABLE totals (count INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
INSERT INTO totals VALUES (0, 0);
CREATE TRIGGER responses_in AFTER INSERT ON responses BEGIN
	UPDATE totals SET count = count + 1, bytes = bytes + NEW.size;
END;
CREATE TRIGGER responses_out AFTER DELETE ON responses BEGIN
	UPDATE totals SET count = count - 1, bytes = bytes - OLD.size;
END;`

// ownerSchema keeps the totals of each owner, so that nothing has to be added up.
const ownerSchema = `
CREATE INDEX responses_owner ON responses (owner, used);
CREATE TABLE owners (owner TEXT PRIMARY KEY, count INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO owners SELECT owner, count(*), sum(size) FROM responses GROUP BY owner;
CREATE TRIGGER owners_in AFTER INSERT ON responses BEGIN
	INSERT INTO owners VALUES (NEW.owner, 1, NEW.size)
		ON CONFLICT DO UPDATE SET count = count + 1, bytes = bytes + NEW.size;
END;
CREATE TRIGGER owners_out AFTER DELETE ON responses BEGIN
	UPDATE owners SET count = count - 1, bytes = bytes - OLD.size WHERE owner = OLD.owner;
	DELETE FROM owners WHERE owner = OLD.owner AND count = 0;
END;`

// FileName is the database's name in the state directory.
const FileName = "responses.db"

// steps are those of the schema.
var steps = []string{schema, ownerSchema}

// Check says why Open could not use the file at path, or nil.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, len(steps)) }

// Open opens the file at path, and makes it if need be.
func Open(ctx context.Context, path string, limits Limits, log *slog.Logger) (*Store, error) {
	db, err := sqlite.Open(ctx, path, steps...)
	if err != nil {
		return nil, fmt.Errorf("cannot store responses: %w", err)
	}
	reads, err := sqlite.Readers(path)
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("cannot store responses: %w", err)
	}
	return &Store{db: db, reads: reads, limits: limits, log: log}, nil
}

// Close closes the file.
func (s *Store) Close() error { return errors.Join(s.reads.Close(), s.db.Close()) }

// within runs f in a transaction.
func within(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Put stores r. When it returns nil, every process that has the file finds it.
// What there is no room for takes nobody else's. It is ErrNotFound or ErrBroken if
// what r continues is gone: r alone could not be continued.
func (s *Store) Put(ctx context.Context, r Response) error {
	if r.size() > s.limits.Bytes {
		return fmt.Errorf("cannot store a response: %w", errNoRoom)
	}
	err := within(ctx, s.db, func(tx *sql.Tx) error {
		now := time.Now()
		if r.Previous != "" {
			if _, err := whole(ctx, tx, r.Owner, r.Previous); err != nil {
				return err
			}
			if err := touch(ctx, tx, r.Owner, r.Previous, now); err != nil {
				return err
			}
		}
		if err := insert(ctx, tx, r, now); err != nil {
			return err
		}
		_, err := s.makeRoom(ctx, tx, r, now.Add(roomTime))
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot store a response: %w", err)
	}
	return nil
}

func (r *Response) size() int64 {
	size := len(r.Object)
	for _, items := range [][]Item{r.Input, r.Output} {
		for _, item := range items {
			size += len(item.JSON)
		}
	}
	return int64(size)
}

func insert(ctx context.Context, tx *sql.Tx, r Response, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO responses VALUES (?, ?, NULLIF(?, ''), ?, ?, ?, ?)`,
		r.ID, r.Owner, r.Previous, r.Worker, now.UnixMilli(), r.size(), r.Object); err != nil {
		return err
	}
	item, err := tx.PrepareContext(ctx, `INSERT INTO items VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer item.Close() //nolint:errcheck // the transaction says what fails
	position := 0
	for made, items := range [][]Item{r.Input, r.Output} {
		for _, i := range items {
			if _, err := item.ExecContext(ctx, r.ID, position, made, i.ID, []byte(i.JSON)); err != nil {
				return err
			}
			position++
		}
	}
	return nil
}

// chain are the ids from a response back to the first one; the last one may not
// be there any more. Its parameters are the id and the owner.
const chain = `WITH RECURSIVE chain (id, depth) AS (
	SELECT ?, 0
	UNION ALL
	SELECT previous, depth + 1 FROM responses JOIN chain USING (id) WHERE owner = ? AND previous IS NOT NULL
) `

// touch makes a response and those that it continues fresh.
func touch(ctx context.Context, tx *sql.Tx, owner, id string, now time.Time) error {
	_, err := tx.ExecContext(ctx, chain+`UPDATE responses SET used = ? WHERE id IN (SELECT id FROM chain)`, id, owner, now.UnixMilli())
	return err
}

// Renew makes a response as fresh as if one that continues it had been stored.
func (s *Store) Renew(ctx context.Context, owner, id string) error {
	return within(ctx, s.db, func(tx *sql.Tx) error { return touch(ctx, tx, owner, id, time.Now()) })
}

package stored

import (
	"context"
	"database/sql"
)

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

// ownerSchema stores the totals of each owner, so that no query has to add them up.
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

// steps are the changes of the schema that user_version counts.
var steps = []string{schema, ownerSchema}

// linkSchema has a short row for each response, so that the use of one rewrites no
// object.
// The time of the last use of a chain is in the row of its last response alone: the
// other responses stay as long as they have a continuation. A version that knows only
// steps can use a file with these tables, and the triggers bring its writes into them;
// so user_version does not count this schema.
const linkSchema = `
CREATE TABLE links (
	id       TEXT PRIMARY KEY,
	owner    TEXT NOT NULL,
	previous TEXT,
	used     INTEGER NOT NULL, -- Unix milliseconds; by itself, or by one that continues it directly
	size     INTEGER NOT NULL, -- bytes of the items
	next     INTEGER NOT NULL, -- responses that continue it directly
	broken   INTEGER NOT NULL  -- whether one before it is gone
) STRICT, WITHOUT ROWID;
INSERT INTO links SELECT id, owner, previous, used, size - length(object), 0, 0 FROM responses;
CREATE INDEX links_previous ON links (previous, owner);
UPDATE links SET next =
	(SELECT count(*) FROM links AS after WHERE after.previous = links.id AND after.owner = links.owner);
WITH RECURSIVE lost (id, owner) AS (
	SELECT id, owner FROM links WHERE previous IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM links AS before WHERE before.id = links.previous AND before.owner = links.owner)
	UNION ALL
	SELECT links.id, links.owner FROM lost JOIN links ON links.previous = lost.id AND links.owner = lost.owner
)
UPDATE links SET broken = 1 WHERE id IN (SELECT id FROM lost);
CREATE INDEX links_last ON links (used) WHERE next = 0;
CREATE INDEX links_owner ON links (owner, next > 0, used);
CREATE TRIGGER links_in AFTER INSERT ON responses BEGIN
	INSERT INTO links VALUES (NEW.id, NEW.owner, NEW.previous, NEW.used, NEW.size - length(NEW.object), 0,
		IFNULL((SELECT broken FROM links WHERE id = NEW.previous AND owner = NEW.owner), NEW.previous IS NOT NULL));
	UPDATE links SET next = next + 1, used = max(used, NEW.used) WHERE id = NEW.previous AND owner = NEW.owner;
END;
CREATE TRIGGER links_on AFTER UPDATE OF used ON responses BEGIN
	UPDATE links SET used = max(used, NEW.used) WHERE id = NEW.id;
END;
CREATE TRIGGER links_out AFTER DELETE ON responses BEGIN
	UPDATE links SET next = next - 1, used = max(used, (SELECT used FROM links WHERE id = OLD.id))
		WHERE id = OLD.previous AND owner = OLD.owner;
	UPDATE links SET broken = 1 WHERE previous = OLD.id AND owner = OLD.owner;
	DELETE FROM links WHERE id = OLD.id;
END;`

// link creates the links of a file without them.
func link(ctx context.Context, db *sql.DB) error { return addTables(ctx, db, "links", linkSchema) }

// addTables runs a schema on a file that has no table with that name.
func addTables(ctx context.Context, db *sql.DB, table, schema string) error {
	var found bool
	const query = `SELECT count(*) FROM sqlite_schema WHERE name = ?`
	if err := db.QueryRowContext(ctx, query, table).Scan(&found); err != nil || found {
		return err
	}
	return within(ctx, db, func(tx *sql.Tx) error {
		// Look again: another process may have been faster.
		if err := tx.QueryRowContext(ctx, query, table).Scan(&found); err != nil || found {
			return err
		}
		_, err := tx.ExecContext(ctx, schema)
		return err
	})
}

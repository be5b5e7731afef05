package stored

import (
	"context"
	"database/sql"
)

// inflightSchema has the background responses that have not ended, and the logs of the events of streamed ones, until
// their responses are gone. user_version does not count it: a version that knows only steps can use a file with these
// tables, and the trigger reports the responses that it deletes.
const inflightSchema = `
CREATE TABLE inflight (
	id        TEXT PRIMARY KEY,
	owner     TEXT NOT NULL,
	process   TEXT NOT NULL,    -- that runs it
	previous  TEXT,
	cancelled INTEGER NOT NULL, -- 1: a client has cancelled it; 2: deleted it
	object    BLOB NOT NULL,
	request   BLOB NOT NULL     -- empty once its turn has begun
) STRICT, WITHOUT ROWID;
CREATE INDEX inflight_process ON inflight (process, cancelled);
CREATE TABLE logs (
	id    TEXT PRIMARY KEY,
	owner TEXT NOT NULL,
	size  INTEGER,          -- bytes of the whole log; NULL: it is being written
	gone  INTEGER NOT NULL  -- whether its response is deleted
) STRICT, WITHOUT ROWID;
CREATE INDEX logs_gone ON logs (id) WHERE gone;
CREATE TRIGGER logs_out AFTER DELETE ON responses BEGIN
	UPDATE logs SET gone = 1 WHERE id = OLD.id;
END;`

// addInFlight creates the tables of a file without them.
func addInFlight(ctx context.Context, db *sql.DB) error {
	return addTables(ctx, db, "inflight", inflightSchema)
}

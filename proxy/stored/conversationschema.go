package stored

import (
	"context"
	"database/sql"
)

// conversationSchema has conversations, with copies of the items of their responses. user_version does not count it,
// and no total of the other tables: a version that knows only these ignores conversations, and does not delete
// responses for their size. A response that began with a conversation has the conversation's id as its previous
// response, which such a version does not find: it refuses to continue the response without its history.
const conversationSchema = `
CREATE TABLE conversations (
	id       TEXT PRIMARY KEY,
	owner    TEXT NOT NULL,
	created  INTEGER NOT NULL, -- Unix seconds
	used     INTEGER NOT NULL, -- Unix milliseconds
	worker   TEXT NOT NULL,    -- that answered last; empty: none did
	next     INTEGER NOT NULL, -- position of the next item
	size     INTEGER NOT NULL, -- bytes of the items
	metadata BLOB NOT NULL     -- JSON
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_used ON conversations (used);
CREATE INDEX conversations_owner ON conversations (owner, used);
CREATE TABLE conversation_items (
	conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
	position     INTEGER NOT NULL,
	id           TEXT NOT NULL,
	worker       TEXT NOT NULL, -- that made it; empty: it was input
	body         BLOB NOT NULL,
	PRIMARY KEY (conversation, position)
) STRICT;
CREATE UNIQUE INDEX conversation_items_id ON conversation_items (id, conversation);
CREATE TABLE conversation_starts (
	response     TEXT PRIMARY KEY,
	conversation TEXT NOT NULL,
	position     INTEGER NOT NULL -- of the first item that the response does not have as its history
) STRICT, WITHOUT ROWID;
CREATE TABLE conversation_owners (
	owner TEXT PRIMARY KEY,
	count INTEGER NOT NULL,
	bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER conversations_in AFTER INSERT ON conversations BEGIN
	INSERT INTO conversation_owners VALUES (NEW.owner, 1, NEW.size + length(NEW.metadata))
		ON CONFLICT DO UPDATE SET count = count + 1, bytes = bytes + NEW.size + length(NEW.metadata);
END;
CREATE TRIGGER conversations_on AFTER UPDATE OF size, metadata ON conversations BEGIN
	UPDATE conversation_owners
		SET bytes = bytes + NEW.size + length(NEW.metadata) - OLD.size - length(OLD.metadata) WHERE owner = NEW.owner;
END;
CREATE TRIGGER conversations_out AFTER DELETE ON conversations BEGIN
	UPDATE conversation_owners
		SET count = count - 1, bytes = bytes - OLD.size - length(OLD.metadata) WHERE owner = OLD.owner;
	DELETE FROM conversation_owners WHERE owner = OLD.owner AND count = 0;
END;
CREATE TRIGGER conversation_starts_out AFTER DELETE ON responses BEGIN
	DELETE FROM conversation_starts WHERE response = OLD.id;
END;`

// addConversations creates the tables of a file without them.
func addConversations(ctx context.Context, db *sql.DB) error {
	return addTables(ctx, db, "conversations", conversationSchema)
}

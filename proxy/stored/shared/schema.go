package shared

// Schema has the responses and conversations of several hosts. There are no triggers and no totals: a row that each
// write changes would have all hosts wait for each other. Ids of items are bytes, as clients choose them.
const Schema = `
CREATE TABLE codex.responses (
	id text PRIMARY KEY,
	owner text NOT NULL,
	previous text,               -- the response that it continues
	conversation text,           -- that it begins with; it has no previous then
	start bigint NOT NULL,       -- position in the conversation
	extended boolean NOT NULL DEFAULT false, -- its items are in the conversation
	worker text NOT NULL,
	process text NOT NULL,       -- that has stored it
	used timestamptz NOT NULL,   -- for the last time, by itself; in a chain the last response counts
	size bigint NOT NULL,        -- bytes
	items bigint NOT NULL,       -- bytes of its items
	broken boolean NOT NULL,     -- one before it is gone
	object bytea NOT NULL
);
ALTER TABLE codex.responses ALTER object SET STORAGE EXTERNAL;
CREATE INDEX responses_previous ON codex.responses (previous) WHERE previous IS NOT NULL;
CREATE INDEX responses_conversation ON codex.responses (conversation) WHERE conversation IS NOT NULL;
CREATE INDEX responses_used ON codex.responses (used);
CREATE INDEX responses_owner ON codex.responses (owner, used) INCLUDE (size);
CREATE TABLE codex.items (
	response text REFERENCES codex.responses (id) ON DELETE CASCADE,
	position bigint,
	made boolean NOT NULL,       -- it is output
	id bytea NOT NULL,
	body bytea NOT NULL,
	PRIMARY KEY (response, position)
);
ALTER TABLE codex.items ALTER body SET STORAGE EXTERNAL;
CREATE INDEX items_id ON codex.items USING hash (id);
CREATE TABLE codex.events (
	response text PRIMARY KEY REFERENCES codex.responses (id) ON DELETE CASCADE,
	first bigint NOT NULL,       -- number of the first event
	body bytea NOT NULL
);
ALTER TABLE codex.events ALTER body SET STORAGE EXTERNAL;
CREATE TABLE codex.inflight (
	id text PRIMARY KEY,
	owner text NOT NULL,
	host text NOT NULL,          -- that runs it
	process text NOT NULL,
	previous text,
	cancelled int NOT NULL DEFAULT 0, -- 1: a client has cancelled it; 2: deleted it
	streamed boolean NOT NULL,
	object bytea NOT NULL
);
CREATE INDEX inflight_process ON codex.inflight (process);
CREATE TABLE codex.conversations (
	id text PRIMARY KEY,
	owner text NOT NULL,
	created bigint NOT NULL,
	used timestamptz NOT NULL,
	worker text NOT NULL,        -- that answered last; empty: none did
	next bigint NOT NULL,        -- position of the next item
	size bigint NOT NULL,        -- bytes of the items
	metadata bytea NOT NULL,
	holder text,                 -- the response that is being made in it
	process text,                -- of the holder
	host text
);
CREATE INDEX conversations_used ON codex.conversations (used);
CREATE INDEX conversations_owner ON codex.conversations (owner, used);
CREATE INDEX conversations_host ON codex.conversations (host) WHERE holder IS NOT NULL;
CREATE TABLE codex.conversation_items (
	conversation text REFERENCES codex.conversations (id) ON DELETE CASCADE,
	position bigint,
	id bytea NOT NULL,
	worker text NOT NULL,        -- that made it; empty: it was input
	body bytea NOT NULL,
	PRIMARY KEY (conversation, position)
);
ALTER TABLE codex.conversation_items ALTER body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX conversation_items_id ON codex.conversation_items (conversation, sha256(id));
CREATE INDEX conversation_items_hash ON codex.conversation_items USING hash (id);
CREATE TABLE codex.sweep (at timestamptz NOT NULL);
INSERT INTO codex.sweep (at) VALUES (now());
`

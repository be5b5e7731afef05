package store

// steps are the versions of the schema, one each. Only append: a file has had those before. Times are nanoseconds since
// 1970, or 0 without a time; JSON has the format of package wire.
var steps = []string{
	`CREATE TABLE sessions (
		seq INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of creation
		id TEXT NOT NULL UNIQUE,
		owner INTEGER NOT NULL, -- user ID
		owner_name TEXT NOT NULL,
		state TEXT NOT NULL, -- wire.SessionState
		created INTEGER NOT NULL,
		used INTEGER NOT NULL, -- since when it is in its state
		repository TEXT NOT NULL,
		ref TEXT NOT NULL,
		commit_id TEXT NOT NULL,
		patch TEXT NOT NULL,
		environment TEXT NOT NULL,
		network INTEGER NOT NULL,
		secrets TEXT NOT NULL, -- names, JSON
		hold INTEGER NOT NULL, -- nanoseconds
		commands INTEGER NOT NULL DEFAULT 0 -- the number of the last one
	) STRICT;
	CREATE INDEX sessions_of_owner ON sessions (owner, seq);
	CREATE INDEX sessions_in_state ON sessions (state, used);
	CREATE TABLE commands (
		session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
		number INTEGER NOT NULL,
		state TEXT NOT NULL, -- wire.CommandState
		command TEXT NOT NULL, -- wire.NewCommand with all limits, JSON
		created INTEGER NOT NULL,
		started INTEGER NOT NULL DEFAULT 0,
		ended INTEGER NOT NULL DEFAULT 0,
		cancelled_by TEXT NOT NULL DEFAULT '', -- a user who asked for it, before the end
		outcome TEXT NOT NULL DEFAULT '', -- outcome.Outcome, JSON
		usage TEXT NOT NULL DEFAULT '', -- wire.Usage, JSON
		invocation TEXT NOT NULL DEFAULT '',
		PRIMARY KEY (session, number)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX commands_live ON commands (created) WHERE state <> 'ended';
	CREATE TABLE workspaces (
		number INTEGER PRIMARY KEY,
		repository TEXT NOT NULL, -- that it was last a checkout of
		released INTEGER NOT NULL, -- when its last lease ended
		bytes INTEGER NOT NULL
	) STRICT;
	CREATE TABLE leases (
		workspace INTEGER PRIMARY KEY REFERENCES workspaces (number),
		session TEXT NOT NULL UNIQUE REFERENCES sessions (id) ON DELETE CASCADE,
		heartbeat INTEGER NOT NULL -- when the session last began or ended a command
	) STRICT;`,
	// environments
	`CREATE TABLE environments (
		key TEXT PRIMARY KEY,
		provider TEXT NOT NULL,
		state TEXT NOT NULL, -- EnvironmentState
		bytes INTEGER NOT NULL, -- 0 until it is ready
		used INTEGER NOT NULL -- when a command last asked for it
	) STRICT, WITHOUT ROWID;
	ALTER TABLE commands ADD COLUMN environment TEXT NOT NULL DEFAULT ''; -- the key; leased until the command has ended
	CREATE INDEX commands_environment ON commands (environment) WHERE environment <> '';
	CREATE TABLE facts (
		owner INTEGER PRIMARY KEY, -- user ID: nobody is given what commands of others report
		facts TEXT NOT NULL -- environment.Facts, JSON
	) STRICT;`,
	// repositories
	`CREATE TABLE repositories (
		key TEXT PRIMARY KEY,
		owner INTEGER NOT NULL, -- user ID
		url TEXT NOT NULL, -- of a local one: where relative URLs of its submodules begin, or ''
		path TEXT NOT NULL, -- of a local one
		fetched INTEGER NOT NULL DEFAULT 0, -- 0: there is no mirror, or none that can be used
		used INTEGER NOT NULL,
		bytes INTEGER NOT NULL DEFAULT 0, -- on the disk, after the last fetch
		damaged INTEGER NOT NULL DEFAULT 0 -- the next fetch makes the mirror anew
	) STRICT, WITHOUT ROWID;
	CREATE INDEX repositories_of_owner ON repositories (owner);
	CREATE TABLE commits ( -- that a mirror has, with all their submodules
		repository TEXT NOT NULL REFERENCES repositories (key) ON DELETE CASCADE,
		commit_id TEXT NOT NULL,
		seen INTEGER NOT NULL,
		PRIMARY KEY (repository, commit_id)
	) STRICT, WITHOUT ROWID;
	ALTER TABLE sessions ADD COLUMN repository_key TEXT NOT NULL DEFAULT '';
	CREATE INDEX sessions_with_repository ON sessions (repository_key) WHERE repository_key <> '' AND state <> 'closed';`,
	// artifacts
	`CREATE TABLE artifacts (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		session TEXT NOT NULL,
		command INTEGER NOT NULL,
		path TEXT NOT NULL, -- in the workspace
		kind TEXT NOT NULL, -- artifact.Kind
		offset INTEGER NOT NULL, -- of the content in the archive of the command
		bytes INTEGER NOT NULL,
		sha256 TEXT NOT NULL,
		created INTEGER NOT NULL,
		FOREIGN KEY (session, command) REFERENCES commands (session, number) ON DELETE CASCADE
	) STRICT;
	CREATE INDEX artifacts_of_session ON artifacts (session, command, path);
	ALTER TABLE commands ADD COLUMN artifacts_fault TEXT NOT NULL DEFAULT '';`,
	// sweeps
	`CREATE TABLE sweeps (
		session TEXT PRIMARY KEY -- closed; its home is to be removed
	) STRICT, WITHOUT ROWID;`,
	// set-ups
	`ALTER TABLE commits ADD COLUMN plain INTEGER NOT NULL DEFAULT 0; -- no file of it is one that a set-up follows from
	ALTER TABLE environments ADD COLUMN family TEXT NOT NULL DEFAULT ''; -- of a snapshot: setup.Snapshot`,
	// idle times of sessions
	`ALTER TABLE sessions ADD COLUMN idle INTEGER NOT NULL DEFAULT 0; -- nanoseconds; 0: idle_timeout of runner.toml`,
}

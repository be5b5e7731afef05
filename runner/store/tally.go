package store

import (
	"context"

	"codex-proxy/runner/api/wire"
)

// Tally counts the things in the store.
type Tally struct {
	Sessions           map[wire.SessionState]int
	Commands           map[wire.CommandState]int // that have not ended
	Workspaces, Leased int
	Environments       int // that are ready
	EnvironmentBytes   int64
	Snapshots          int // of set-ups, that are ready; they are no Environments
	SnapshotBytes      int64
	Repositories       int // with a mirror
	RepositoryBytes    int64
	WorkspaceBytes     int64 // of workspaces that no session leases
}

// Tally returns the counts. It reads no session, so that it takes a few milliseconds with ten thousand of them.
func (s *Store) Tally(ctx context.Context) (Tally, error) {
	t := Tally{Sessions: map[wire.SessionState]int{}, Commands: map[wire.CommandState]int{}}
	err := tally(ctx, s, `SELECT state, count(*) FROM sessions GROUP BY state`, t.Sessions)
	if err == nil {
		err = tally(ctx, s, `SELECT state, count(*) FROM commands WHERE state <> 'ended' GROUP BY state`, t.Commands)
	}
	if err == nil {
		err = s.reads.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM workspaces), (SELECT count(*) FROM leases),
			(SELECT count(*) FROM environments WHERE state = 'ready' AND provider <> 'setup'),
			(SELECT ifnull(sum(bytes), 0) FROM environments WHERE provider <> 'setup'),
			(SELECT count(*) FROM environments WHERE state = 'ready' AND provider = 'setup'),
			(SELECT ifnull(sum(bytes), 0) FROM environments WHERE provider = 'setup'),
			(SELECT count(*) FROM repositories WHERE fetched <> 0), (SELECT ifnull(sum(bytes), 0) FROM repositories),
			(SELECT ifnull(sum(bytes), 0) FROM workspaces WHERE number NOT IN (SELECT workspace FROM leases))`).
			Scan(&t.Workspaces, &t.Leased, &t.Environments, &t.EnvironmentBytes, &t.Snapshots, &t.SnapshotBytes, &t.Repositories,
				&t.RepositoryBytes, &t.WorkspaceBytes)
	}
	return t, err
}

// tally adds the rows of a query to counts.
func tally[State ~string](ctx context.Context, s *Store, query string, counts map[State]int) error {
	rows, err := s.reads.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var state State
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		counts[state] = n
	}
	return rows.Err()
}

// AllSessions is the number of sessions in all states.
func (t Tally) AllSessions() (n int) {
	for _, count := range t.Sessions {
		n += count
	}
	return n
}

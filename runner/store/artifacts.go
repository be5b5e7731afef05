package store

import (
	"context"
	"database/sql"
	"errors"

	"codex-proxy/runner/api/wire"
)

func addArtifacts(ctx context.Context, tx *sql.Tx, id string, number int, e Ending) error {
	for _, a := range e.Artifacts {
		_, err := tx.ExecContext(ctx, `INSERT INTO artifacts (session, command, path, kind, offset, bytes, sha256, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, id, number, a.Path, a.Kind, a.Offset, a.Bytes, a.SHA256, nanos(e.Ended))
		if err != nil {
			return err
		}
	}
	return nil
}

const selectArtifacts = `SELECT id, command, path, kind, offset, bytes, sha256, created FROM artifacts WHERE session = ?`

func scanArtifact(row interface{ Scan(...any) error }) (a wire.Artifact, offset int64, err error) {
	var created int64
	err = row.Scan(&a.ID, &a.Command, &a.Path, &a.Kind, &offset, &a.Bytes, &a.SHA256, &created)
	a.Created = at(created)
	return a, offset, err
}

// List returns the artifacts of a session, by command and path.
func (s Artifacts) List(ctx context.Context, id string) ([]wire.Artifact, error) {
	rows, err := s.reads.QueryContext(ctx, selectArtifacts+` ORDER BY command, path, id`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []wire.Artifact{}
	for rows.Next() {
		a, _, err := scanArtifact(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, rows.Err()
}

// Find returns one of a session, and the place of its content in the archive of the command.
func (s Artifacts) Find(ctx context.Context, id string, artifact int64) (a wire.Artifact, offset int64, err error) {
	a, offset, err = scanArtifact(s.reads.QueryRowContext(ctx, selectArtifacts+` AND id = ?`, id, artifact))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return a, offset, err
}

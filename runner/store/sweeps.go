package store

import "context"

// Sweeps returns the closed or deleted sessions that still have a home to be removed.
func (s *Store) Sweeps(ctx context.Context) ([]string, error) {
	rows, err := s.reads.QueryContext(ctx, `SELECT session FROM sweeps`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, rows.Err()
}

// Swept records that the home of a session is removed.
func (s *Store) Swept(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM sweeps WHERE session = ?`, id)
	return err
}

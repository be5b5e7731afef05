package stored

import (
	"context"
	"database/sql"
	"errors"
)

// Retract undoes Begin.
func (s *Background) Retract(ctx context.Context, id string) error {
	return errors.Join(s.write(ctx, func(tx *sql.Tx) error {
		_, err := leave(ctx, tx, id, s.Events.Own())
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM logs WHERE id = ?`, id)
		}
		return err
	}), s.Events.Remove(id))
}

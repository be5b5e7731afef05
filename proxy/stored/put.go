package stored

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Put stores r. When it returns nil, every process that has the file open finds r. A
// response that is too large removes no other. The error is ErrNotFound or ErrBroken
// if the response that r continues is deleted: r alone could not be continued. The
// length of the chain does not matter to its cost.
func (s *Responses) Put(ctx context.Context, r Response) error {
	if r.Size() > s.Limits.Bytes {
		return fmt.Errorf("cannot store a response: %w", ErrNoRoom)
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		now := time.Now()
		if err := continuable(ctx, tx, r.Owner, r.Previous); err != nil {
			return err
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

// Size is how many bytes count for the response.
func (r *Response) Size() int64 {
	return int64(len(r.Object)) + sizeOf(r.Input) + sizeOf(r.Output) + r.Log
}

func sizeOf(items []Item) (bytes int64) {
	for _, item := range items {
		bytes += int64(len(item.JSON))
	}
	return bytes
}

func insert(ctx context.Context, tx *sql.Tx, r Response, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO responses VALUES (?, ?, NULLIF(?, ''), ?, ?, ?, ?)`,
		r.ID, r.Owner, cmp.Or(r.Conversation, r.Previous), r.Worker, now.UnixMilli(), r.Size(), r.Object); err != nil {
		return err
	}
	if r.Conversation != "" {
		if err := begin(ctx, tx, r, now); err != nil {
			return err
		}
	}
	if r.Log > 0 { // a log is no part of the conversation
		if _, err := tx.ExecContext(ctx, `UPDATE links SET size = size - ? WHERE id = ?`, r.Log, r.ID); err != nil {
			return err
		}
	}
	item, err := tx.PrepareContext(ctx, `INSERT INTO items VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer item.Close() //nolint:errcheck // the transaction reports failures
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

// continuable is nil if a response and all before it are stored, or if id is empty.
func continuable(ctx context.Context, tx *sql.Tx, owner, id string) error {
	if id == "" {
		return nil
	}
	var broken bool
	err := tx.QueryRowContext(ctx, `SELECT broken FROM links WHERE id = ? AND owner = ?`, id, owner).Scan(&broken)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	case broken:
		return ErrBroken
	}
	return err
}

// Renew counts as a use of a response, as storing one that continues it does. The
// responses before it stay as long as it does.
func (s *Responses) Renew(ctx context.Context, owner, id string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE links SET used = max(used, ?) WHERE id = ? AND owner = ?`,
			time.Now().UnixMilli(), id, owner)
		return err
	})
}

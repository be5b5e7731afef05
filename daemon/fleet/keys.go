package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/auth"
)

// keyText is the keys as a key file has them. Hosts with a database never admit a request without a key.
const keyText = `SELECT coalesce(string_agg(line, E'\n' ORDER BY name), '') FROM codex.keys`

// file is the text of a key file with lines of the database.
func file(lines string) string { return strings.TrimSpace(auth.ClosedLine()+"\n"+lines) + "\n" }

// EditKeys changes the keys of the database: edit gets the text of a key file, and returns another one, without the
// keys that only a newer version can use. Changes of several hosts follow each other. An error of edit is returned as it is, and changes nothing.
func EditKeys(ctx context.Context, conn *pgx.Conn, edit func(text string) (string, error)) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(keysLock)); err != nil {
			return err
		}
		before, err := readKeys(ctx, tx)
		if err != nil {
			return err
		}
		usable, refused := auth.Usable(before) // the others stay as they are
		after, err := edit(usable)
		if err != nil {
			return err
		}
		lines := linesOf(after)
		for _, name := range refused {
			if lines[name] != "" {
				return fmt.Errorf("the database has a key %q with limits that this version does not know; upgrade "+
					"codex-proxy, or choose another name", name)
			}
		}
		return write(ctx, tx, linesOf(usable), lines)
	})
}

// ReadKeys returns the keys of the database that this version can use, as the text of a key file.
func ReadKeys(ctx context.Context, conn *pgx.Conn) (string, error) {
	text, err := readKeys(ctx, conn)
	usable, _ := auth.Usable(text)
	return usable, err
}

func readKeys(ctx context.Context, from interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (string, error) {
	var lines string
	if err := from.QueryRow(ctx, keyText).Scan(&lines); err != nil {
		return "", fmt.Errorf("cannot read the keys of the database: %w", err)
	}
	return file(lines), nil
}

// linesOf maps the names of keys to their lines.
func linesOf(text string) map[string]string {
	lines := map[string]string{}
	for line := range strings.Lines(text) {
		if words := auth.Fields(line); len(words) > 0 && !auth.IsClosedLine(line) {
			lines[words[0]] = strings.TrimSpace(line)
		}
	}
	return lines
}

// unused has a key begin anew. The shares of hosts stay: they have from where on a host counts.
const unused = `WITH locked AS (
		SELECT key, kind FROM codex.limits WHERE key = $1 ORDER BY kind COLLATE "C" FOR UPDATE)
	UPDATE codex.limits AS l SET used = 0 FROM locked WHERE l.key = locked.key AND l.kind = locked.kind`

// write writes the differences, and a new revision for the other hosts.
func write(ctx context.Context, tx pgx.Tx, before, after map[string]string) error {
	batch := &pgx.Batch{}
	for _, name := range slices.Sorted(maps.Keys(before)) { // in the order of codex.share
		if _, stays := after[name]; !stays {
			batch.Queue("DELETE FROM codex.keys WHERE name = $1", name)
			batch.Queue(unused, name)
		}
	}
	for name, line := range after {
		if before[name] != line {
			batch.Queue("INSERT INTO codex.keys (name, line) VALUES ($1, $2) "+
				"ON CONFLICT (name) DO UPDATE SET line = excluded.line", name, line)
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	batch.Queue("UPDATE codex.revision SET n = n + 1")
	return tx.SendBatch(ctx, batch).Close()
}

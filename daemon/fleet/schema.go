// Package fleet gives several hosts the same API keys with their limits, and one usage, through a database: each host
// asks it once a second.
package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored/shared"
)

// steps grow the schema. Each is also right for a program of the version before: it adds, and never renames.
var steps = []string{`
CREATE TABLE codex.hosts (
	name text PRIMARY KEY,
	machine text NOT NULL,
	version text NOT NULL,
	joined timestamptz NOT NULL DEFAULT now(),
	until timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE codex.keys (
	name text PRIMARY KEY,
	line text NOT NULL
);
CREATE TABLE codex.revision (n bigint NOT NULL);
INSERT INTO codex.revision (n) VALUES (0);
`,
	sharesStep,
	shared.Schema,
}

// The locks of the database: of a change of the schema, and of the keys.
const (
	schemaLock = 0x636f6465780001
	keysLock   = 0x636f6465780002
)

// Migrate brings the schema up to date, and returns the number of steps that were missing. Two of them at the same
// time wait for each other.
func Migrate(ctx context.Context, conn *pgx.Conn) (missing int, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range []string{
			fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", schemaLock),
			"CREATE SCHEMA IF NOT EXISTS codex",
			"CREATE TABLE IF NOT EXISTS codex.schema (step int NOT NULL)",
			"INSERT INTO codex.schema (step) SELECT 0 WHERE NOT EXISTS (SELECT FROM codex.schema)",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		var step int
		if err := tx.QueryRow(ctx, "SELECT step FROM codex.schema").Scan(&step); err != nil {
			return err
		}
		if step > len(steps) {
			return nil // of a newer version: right for this one, too
		}
		for _, statements := range steps[step:] {
			if _, err := tx.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		missing = len(steps) - step
		_, err := tx.Exec(ctx, "UPDATE codex.schema SET step = $1", len(steps))
		return err
	})
	return missing, err
}

// checkSchema is an error if the program cannot use a schema of that many steps.
func checkSchema(step int) error {
	if step < len(steps) {
		return fmt.Errorf("the schema of the database has step %d, and this version needs %d; "+
			"codex-proxy database migrate", step, len(steps))
	}
	return nil
}

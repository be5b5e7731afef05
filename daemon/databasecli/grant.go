package databasecli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/jackc/pgx/v5"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/postgres"
)

// own are the tables that belong to the commands of root: with them a daemon would give keys to all hosts. Of hosts it
// renews its lease.
const own = "codex.schema, codex.keys, codex.revision, codex.hosts"

// grant gives the role of the daemons its rights. It runs after each step of the tables, also for tables that are new.
func grant(ctx context.Context, conn *pgx.Conn) error {
	var owner string
	if err := conn.QueryRow(ctx, "SELECT current_user").Scan(&owner); err != nil {
		return err
	}
	service := postgres.ServiceRole(owner)
	var there bool
	const exists = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)"
	if err := conn.QueryRow(ctx, exists, service).Scan(&there); err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("the server has no role %s, by which the services connect: run the SQL of "+
			"codex-proxy database init there, also if it has run before", service)
	}
	role := pgx.Identifier{service}.Sanitize()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(`
GRANT USAGE ON SCHEMA codex TO %[1]s;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA codex TO %[1]s;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA codex TO %[1]s;
REVOKE INSERT, UPDATE, DELETE ON %[2]s FROM %[1]s;
GRANT UPDATE (until, version) ON codex.hosts TO %[1]s;
`, role, own), pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// pass passes the password of the daemon's role on to the service.
func pass(owner string) error {
	text := []byte(postgres.ServicePassword(owner) + "\n")
	fresh := paths.DatabaseServicePassword + ".new"
	err := os.WriteFile(fresh, text, 0o600)
	if err == nil {
		err = os.Rename(fresh, paths.DatabaseServicePassword)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the password of the service: %w", err)
	}
	return nil
}

// forget empties the files of the passwords: a host that has left cannot come back by them.
func forget() error {
	for _, name := range []string{paths.DatabaseServicePassword, paths.DatabasePassword} {
		if err := os.Truncate(name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the password: %w", err)
		}
	}
	return nil
}

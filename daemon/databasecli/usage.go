package databasecli

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/fleet"
	"codex-proxy/proxy/usage"
)

// Shared reports whether settings that can be read name a database.
func Shared(settings string) (database config.Database, shared bool) {
	places, err := config.LoadPlaces(settings)
	return places.Database, err == nil && !places.Database.Address.IsZero()
}

// Usage reads the usage of all hosts since a day, by some of usage.Groups.
func Usage(ctx context.Context, database config.Database, since time.Time, by []string) (sums []usage.Sum, err error) {
	err = apikeys.Database(ctx, database, func(ctx context.Context, conn *pgx.Conn) error {
		sums, err = fleet.ReadUsage(ctx, conn, since, by)
		return err
	})
	return sums, err
}

package apikeys

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/daemon/config"
	"codex-proxy/daemon/fleet"
	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/workers/control"
)

// databaseBound is for one command.
const databaseBound = 8 * time.Second

// database has the keys of several hosts.
type database struct{ settings config.Database }

// Database calls work with a connection over the network, as a command of root has one.
func Database(ctx context.Context, settings config.Database, work func(context.Context, *pgx.Conn) error) error {
	server, err := settings.Server("")
	if err != nil {
		return err
	}
	return with(ctx, server, work)
}

// Service is Database by the role of the service: what that may do.
func Service(ctx context.Context, settings config.Database, work func(context.Context, *pgx.Conn) error) error {
	server, err := settings.Server("")
	if err != nil {
		return err
	}
	return with(ctx, server.Service(), work)
}

func with(ctx context.Context, server postgres.Server, work func(context.Context, *pgx.Conn) error) error {
	session := postgres.NewSession(server, databaseBound)
	defer session.Close()
	return fleet.Explain(session.Do(ctx, work))
}

// change changes the keys. written is called when the database has them.
func (d *database) change(ctx context.Context, edit change, allow func(*auth.Keys) error, written func()) error {
	err := Database(ctx, d.settings, func(ctx context.Context, conn *pgx.Conn) error {
		return fleet.EditKeys(ctx, conn, func(text string) (string, error) {
			fresh, _, err := revise([]byte(text), edit, allow)
			return string(fresh), err
		})
	})
	if err == nil {
		written()
	}
	return err
}

// Read returns the keys of the file, or of the database.
func (e *Editor) Read(ctx context.Context) (*auth.Keys, error) {
	if e.database == nil {
		_, keys, err := e.File.Read()
		return keys, err
	}
	keys := &auth.Keys{}
	return keys, Database(ctx, e.database.settings, func(ctx context.Context, conn *pgx.Conn) error {
		text, err := fleet.ReadKeys(ctx, conn)
		if err != nil {
			return err
		}
		return keys.Replace(text)
	})
}

// use sets the use of keys to the use on all hosts. The refusals are counted on this host alone.
func (d *database) use(ctx context.Context, keys *auth.Keys, rows []control.Key) error {
	return Database(ctx, d.settings, func(ctx context.Context, conn *pgx.Conn) error {
		uses, err := fleet.Uses(ctx, conn)
		if err != nil {
			return err
		}
		today, err := fleet.ReadUsage(ctx, conn, time.Now(), []string{"key"})
		if err != nil {
			return err
		}
		for i, key := range keys.All() {
			used := &control.KeyUse{}
			if rows[i].Used != nil {
				used.Refused = rows[i].Used.Refused
			}
			for _, sum := range today {
				if sum.Key == key.Name {
					used.TokensPerDay = sum.Tokens()
				}
			}
			setUse(used, key, uses)
			rows[i].Used = used
		}
		return nil
	})
}

// setUse sets the use of the limits that hosts hold together.
func setUse(used *control.KeyUse, key auth.Key, uses []fleet.Use) {
	for _, use := range uses {
		if use.Key != key.Name || key.Limits.Number(use.Kind) == 0 {
			continue
		}
		n := int64(math.Ceil(use.InUse(limits.SharedLimit(key.Limits, use.Kind), time.Now())))
		switch use.Kind {
		case auth.RequestsPerMinute:
			used.RequestsPerMinute = n
		case auth.TokensPerMinute:
			used.TokensPerMinute = n
		case auth.Concurrent:
			used.Concurrent = int64(use.Held)
		}
	}
}

// Import adds the keys of a file to the database. It returns how many were not there. If the database has another key
// of the same name, the error names it, and nothing changes. Of the same key the limits in the database stay.
func (f File) Import(ctx context.Context, conn *pgx.Conn) (added int, err error) {
	_, own, err := f.Read()
	if err != nil {
		return 0, err
	}
	err = fleet.EditKeys(ctx, conn, func(text string) (string, error) {
		fresh, _, err := revise([]byte(text), func(lines []string, there *auth.Keys) ([]string, error) {
			wanted, clashes := missing(own, there)
			if len(clashes) > 0 {
				return nil, f.clash(clashes)
			}
			added = len(wanted)
			return append(lines, wanted...), nil
		}, func(*auth.Keys) error { return nil })
		return string(fresh), err
	})
	return added, err
}

// clash is the error for keys of the file whose names the database gives to other keys. Without --file, keys revoke
// would take the key of the other hosts.
func (f File) clash(names []string) error {
	return fmt.Errorf("the database has other keys with the names %s; in %s, the file of this host alone, give them "+
		"other names (the first word of a line; the keys stay good), or codex-proxy keys revoke %s --file=%s; "+
		"then codex-proxy database join again", strings.Join(names, ", "), f, names[0], f)
}

// missing returns the lines of the keys that are not there, and the names of those that clash.
func missing(own, there *auth.Keys) (lines, clashes []string) {
	for _, key := range own.All() {
		i := slices.IndexFunc(there.All(), func(k auth.Key) bool { return k.Name == key.Name })
		switch {
		case i < 0:
			lines = append(lines, strings.Join(append([]string{key.ID()}, key.Limits.Words()...), " "))
		case there.All()[i].ID() != key.ID():
			clashes = append(clashes, key.Name)
		}
	}
	return lines, clashes
}

// Export replaces the file by the keys of the database.
func (f File) Export(ctx context.Context, conn *pgx.Conn) error {
	text, err := fleet.ReadKeys(ctx, conn)
	if err != nil {
		return err
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return f.write([]byte(text))
}

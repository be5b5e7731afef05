// Package databasecli keeps the database that several hosts share, for an operator.
package databasecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/fleet"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/postgres"
	"codex-proxy/workers/control"
)

// Database is the state of one command line of database. Locate has to be called first.
type Database struct {
	Version string
	JSON    bool // Hosts prints JSON
	Stdout  io.Writer
	Stderr  io.Writer // for people

	places config.Places
}

// Locate reads the settings.
func (d *Database) Locate(settings string) (err error) {
	if d.places, err = config.LoadPlaces(settings); err != nil {
		return err
	}
	if d.places.Database.Address.IsZero() {
		return fmt.Errorf("there is no database: %s has no url in [database]", settings)
	}
	return nil
}

func (d *Database) do(ctx context.Context, work func(context.Context, *pgx.Conn) error) error {
	err := apikeys.Database(ctx, d.places.Database, work)
	if err != nil {
		return fmt.Errorf("%s: %w", d.places.Database.Address.Server(), err)
	}
	return nil
}

// Init prints the SQL for role and database. Without a password it makes one.
func (d *Database) Init(context.Context, string) error {
	server, err := d.places.Database.Server("")
	if err != nil {
		return err
	}
	if server.Password == "" {
		server.Password = postgres.NewPassword()
		if err := os.WriteFile(paths.DatabasePassword, []byte(server.Password+"\n"), 0o600); err != nil {
			return fmt.Errorf("cannot keep the password of the database: %w", err)
		}
		fmt.Fprintf(d.Stderr, "%s has a new password. Copy the file to the other hosts.\n", paths.DatabasePassword)
	}
	sql, err := postgres.RolesSQL(server.Address, server.Password)
	if err == nil {
		_, err = io.WriteString(d.Stdout, sql)
	}
	return err
}

// Migrate makes or updates the tables.
func (d *Database) Migrate(ctx context.Context, _ string) error {
	return d.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		steps, err := fleet.Migrate(ctx, conn)
		if err == nil {
			err = grant(ctx, conn)
		}
		if err == nil {
			fmt.Fprintf(d.Stderr, "The tables are up to date; %d steps were missing.\n", steps)
		}
		return err
	})
}

// Join adds this host, with its keys.
func (d *Database) Join(ctx context.Context, _ string) error {
	host, err := fleet.ThisHost(d.Version)
	if err != nil {
		return err
	}
	added := 0
	err = d.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if added, err = d.enter(ctx, conn, host); err == nil {
			err = d.keep(ctx, conn)
		}
		if err == nil {
			err = d.pass()
		}
		return err
	})
	if err == nil {
		err = d.serves(ctx, host)
	}
	if err == nil {
		fmt.Fprintf(d.Stderr, "%s has joined; %d of its keys are new in the database.\n"+
			"systemctl restart codex-proxy puts the keys of the database into force here.\n", host.Name, added)
	}
	return err
}

// serves is an error if the service of this host, which has joined, cannot use the database by its own role.
func (d *Database) serves(ctx context.Context, host fleet.Host) error {
	err := apikeys.Service(ctx, d.places.Database, func(ctx context.Context, conn *pgx.Conn) error {
		return fleet.Check(ctx, conn, host)
	})
	if err != nil {
		return fmt.Errorf("%s has joined, but its service cannot use %s: %w", host.Name,
			d.places.Database.Address.Server(), err)
	}
	return nil
}

// enter adds the host and its keys, or, if one of the two is refused, neither. A host that is one already brings no key:
// its file still has those that were revoked since.
func (d *Database) enter(ctx context.Context, conn *pgx.Conn, host fleet.Host) (added int, err error) {
	before, err := fleet.Hosts(ctx, conn)
	if err != nil {
		return 0, err
	}
	if err := fleet.Join(ctx, conn, host); err != nil {
		return 0, err
	}
	if slices.ContainsFunc(before, func(h fleet.Host) bool { return h.Name == host.Name }) {
		return 0, nil
	}
	added, err = d.file().Import(ctx, conn)
	if err != nil {
		err = errors.Join(err, fleet.Leave(ctx, conn, host.Name))
	}
	return added, err
}

// pass passes the password of the service on to it.
func (d *Database) pass() error {
	server, err := d.places.Database.Server("")
	if err == nil {
		err = pass(server.Password)
	}
	return err
}

// keep keeps the keys for the first start with the database, which then does not wait for it. Before the first start of
// all there is no directory for them.
func (d *Database) keep(ctx context.Context, conn *pgx.Conn) error {
	began := time.Now()
	text, err := fleet.ReadKeys(ctx, conn)
	if err == nil {
		err = fleet.WriteCache(config.KeyCache(), text, began)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Leave removes another host; or this one, and writes the keys into its file.
func (d *Database) Leave(ctx context.Context, name string) error {
	host, err := fleet.ThisHost(d.Version)
	if err != nil {
		return err
	}
	return d.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if name != "" && name != host.Name {
			return fleet.Leave(ctx, conn, name)
		}
		if err := d.file().Export(ctx, conn); err != nil {
			return err
		}
		if err := fleet.Leave(ctx, conn, host.Name); err != nil {
			return err
		}
		if err := os.Remove(config.KeyCache()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := forget(); err != nil {
			return err
		}
		fmt.Fprintf(d.Stderr, "%s has the keys, and this host has the passwords of the database no more. Remove url "+
			"from [database] in config.toml now, then systemctl restart codex-proxy.\n", d.file())
		return nil
	})
}

// file is the key file of this host without a database.
func (d *Database) file() apikeys.File { return apikeys.File(d.places.OwnKeyFile) }

// Hosts lists the hosts.
func (d *Database) Hosts(ctx context.Context, _ string) error {
	return d.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		hosts, err := fleet.Hosts(ctx, conn)
		if err != nil {
			return err
		}
		if d.JSON {
			return json.NewEncoder(d.Stdout).Encode(hosts)
		}
		table := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "HOST\tSTATE\tLEASE UNTIL\tSHARES\tVERSION\tJOINED")
		for _, h := range hosts {
			state := "alive"
			if !h.Alive {
				state = "silent"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", h.Name, state, h.Until.UTC().Format(time.RFC3339), h.Shares,
				h.Version, h.Joined.UTC().Format(time.RFC3339))
		}
		return table.Flush()
	})
}

// Check asks the database, and the service for its state.
func (d *Database) Check(ctx context.Context, _ string) error {
	host, err := fleet.ThisHost(d.Version)
	if err != nil {
		return err
	}
	err = d.do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return fleet.Check(ctx, conn, host) })
	if err == nil {
		err = d.serves(ctx, host)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Stdout, "%s answers, its certificate is good, its tables are up to date, and %s has joined.\n",
		d.places.Database.Address.Server(), host.Name)
	report, _, err := control.NewClient(d.places.Socket()).Status(ctx)
	switch {
	case errors.Is(err, control.ErrNotRunning):
		fmt.Fprintln(d.Stdout, "The service does not run.")
		return nil
	case err != nil:
		return err
	case report.Database == nil:
		return errors.New("the running service does not know of it; systemctl restart codex-proxy")
	case report.Database.Away:
		return errors.New(report.Database.Sentence())
	}
	fmt.Fprintln(d.Stdout, "The running service uses it.")
	return nil
}

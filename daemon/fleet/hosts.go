package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// machineID is machine-id(5).
const machineID = "/etc/machine-id"

// Host is one host of the fleet.
type Host struct {
	Name    string    `json:"name"`
	Machine string    `json:"-"` // a hash of its machine-id(5), so that no two hosts have one name
	Version string    `json:"version"`
	Joined  time.Time `json:"joined"`
	Until   time.Time `json:"until"`  // of its lease, by the clock of the database
	Alive   bool      `json:"alive"`  // its lease is not over
	Shares  int       `json:"shares"` // the limits of which it holds a share
}

// ThisHost returns the host that the program runs on.
func ThisHost(version string) (Host, error) {
	name, err := os.Hostname()
	if err != nil {
		return Host{}, err
	}
	id, err := os.ReadFile(machineID)
	if err != nil {
		return Host{}, fmt.Errorf("cannot tell this host from others: %w", err)
	}
	// machine-id(5) asks not to show the ID itself to other hosts.
	sum := sha256.Sum256([]byte("codex-proxy " + strings.TrimSpace(string(id))))
	return Host{Name: name, Machine: hex.EncodeToString(sum[:8]), Version: version}, nil
}

// Join makes a host one of the fleet. It may be one already.
func Join(ctx context.Context, conn *pgx.Conn, h Host) error {
	tag, err := conn.Exec(ctx, "INSERT INTO codex.hosts (name, machine, version) VALUES ($1, $2, $3) "+
		"ON CONFLICT (name) DO UPDATE SET version = excluded.version WHERE hosts.machine = excluded.machine",
		h.Name, h.Machine, h.Version)
	if err == nil && tag.RowsAffected() == 0 {
		return fmt.Errorf("another machine has joined as %s; rename one of the two with hostnamectl, or, if that "+
			"one is gone for good, codex-proxy database leave %s", h.Name, h.Name)
	}
	return err
}

// Leave takes a host out of the fleet, with its shares.
func Leave(ctx context.Context, conn *pgx.Conn, name string) error {
	gone := int64(0)
	batch := &pgx.Batch{}
	// First, as in an exchange: it waits for one that runs, and none comes after it.
	batch.Queue("DELETE FROM codex.hosts WHERE name = $1", name).Exec(func(tag pgconn.CommandTag) error {
		gone = tag.RowsAffected()
		return nil
	})
	batch.Queue("SELECT codex.take_back($1, '')", name)
	batch.Queue("DELETE FROM codex.shares WHERE host = $1", name)
	err := conn.SendBatch(ctx, batch).Close()
	if err == nil && gone == 0 {
		return fmt.Errorf("there is no host %q; codex-proxy database hosts shows what there is", name)
	}
	return err
}

// Hosts lists the hosts of the fleet.
func Hosts(ctx context.Context, conn *pgx.Conn) ([]Host, error) {
	rows, err := conn.Query(ctx, "SELECT name, version, joined, until, until > now(), "+
		"(SELECT count(*) FROM codex.shares WHERE host = name AND held > 0) FROM codex.hosts ORDER BY name")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Host, err error) {
		err = row.Scan(&h.Name, &h.Version, &h.Joined, &h.Until, &h.Alive, &h.Shares)
		return h, err
	})
}

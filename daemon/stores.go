package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/daemon/fleet"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/stored/shared"
	"codex-proxy/proxy/usage"
)

const (
	// storeBound is the longest that a start waits for a database.
	storeBound = 5 * time.Second
	// maxResponses bounds how many there are, whatever their size.
	maxResponses = 100_000
)

// openResponses opens the responses in the unit's state directory (StateDirectory=,
// systemd.exec(5)); without one it returns nil. The store tries a file that it cannot use
// again; requests are served all the same. With [database] the hosts share them.
func openResponses(d *Daemon, registry prometheus.Registerer) (stored.Store, error) {
	dir := os.Getenv("STATE_DIRECTORY")
	if dir == "" || d.cfg.ResponseRetention == 0 {
		return nil, nil
	}
	file := stored.New(stored.Settings{
		Path: filepath.Join(dir, stored.FileName), Registry: registry, Logger: d.logger,
		Limits: stored.Limits{Retention: d.cfg.ResponseRetention, Bytes: d.cfg.ResponseStorage, Count: maxResponses},
	})
	ctx, cancel := context.WithTimeout(context.Background(), storeBound)
	defer cancel()
	if err := file.Open(ctx); err != nil {
		d.logger.Error("no response is kept for now: a client cannot come back to one, or continue it", "error", err)
	}
	if d.fleet == nil {
		return file, nil
	}
	server, err := d.cfg.Database.Server(d.cfg.DatabaseSocket())
	if err != nil {
		return nil, err
	}
	host, err := fleet.ThisHost(d.version)
	if err != nil {
		return nil, err
	}
	return shared.New(shared.Settings{
		File: file, Server: server, Host: host.Name, Bound: time.Second,
		Steady: d.fleet.Steady, Foreign: d.fleet.Foreign, Spread: d.fleet.Spread, Registry: registry, Logger: d.logger,
	}), nil
}

// newUsage opens the usage database in the unit's state directory (StateDirectory=,
// systemd.exec(5)); without one, usage is counted in memory alone. Requests are served also
// without a usable database.
func newUsage(cfg *config.Config, registry prometheus.Registerer, logger *slog.Logger) *usage.Store {
	store := usage.New(usage.Settings{
		Path: usageFile(), Retention: cfg.UsageRetention, Shared: !cfg.Database.Address.IsZero(),
		Registry: registry, Logger: logger,
	})
	ctx, cancel := context.WithTimeout(context.Background(), storeBound)
	defer cancel()
	if err := store.Load(ctx); err != nil {
		logger.Error("usage is not written for now, and what keys have used today is forgotten", "error", err)
	}
	return store
}

// usageFile is the path of the usage database; empty without a state directory.
func usageFile() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return filepath.Join(dir, usage.FileName)
	}
	return ""
}

// newFleet returns the exchange with the database that [database] names; nil without one. The daemon has no network: a
// relay leads there.
func newFleet(d *Daemon) (*fleet.Exchange, error) {
	database := d.cfg.Database
	if database.Address.IsZero() {
		return nil, nil
	}
	server, err := database.Server(d.cfg.DatabaseSocket())
	if err != nil {
		return nil, err
	}
	host, err := fleet.ThisHost(d.version)
	if err != nil {
		return nil, err
	}
	d.shares = limits.NewShares()
	settings := fleet.Settings{
		Server: server, Host: host, Keys: d.cfg.Keys, KeysMaxAge: database.KeysMaxAge, Cache: d.cfg.KeyFile,
		Limits: d.shares, UsageRetention: d.cfg.UsageRetention,
		Replace: func(text string) error {
			var keys auth.Keys
			if err := keys.Replace(text); err != nil || keys.Digest() == d.cfg.Keys.Digest() {
				return err
			}
			_, err := d.operators.Keys.Replace("", text)
			return err
		},
		Changed: func() { d.changes.reportChanged() }, Outdated: func() { d.links.Revise() }, Logger: d.logger,
	}
	if path := usageFile(); path != "" {
		settings.Usage = usage.NewOutbox(path)
	}
	return fleet.NewExchange(settings), nil
}

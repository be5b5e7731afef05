package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/fleet"
	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
)

// share makes the exchange with the database that [database] names. The daemon has no network: a relay leads there.
func (d *Daemon) share() error {
	database := d.cfg.Database
	if database.Address.IsZero() {
		return nil
	}
	server, err := database.Server(d.cfg.DatabaseSocket())
	if err != nil {
		return err
	}
	host, err := fleet.ThisHost(d.version)
	if err != nil {
		return err
	}
	d.fleet = fleet.NewExchange(fleet.Settings{
		Server: server, Host: host, Keys: d.cfg.Keys, KeysMaxAge: database.KeysMaxAge, Cache: d.cfg.KeyFile,
		Replace: d.replaceKeys, Changed: func() { d.changes.reportChanged() }, Logger: d.logger,
	})
	return nil
}

// replaceKeys puts the keys of the database into force, if others are.
func (d *Daemon) replaceKeys(text string) error {
	var keys auth.Keys
	if err := keys.Replace(text); err != nil || keys.Digest() == d.cfg.Keys.Digest() {
		return err
	}
	_, err := d.operators.Keys.Replace("", text)
	return err
}

// databaseReport is nil without a database.
func (d *Daemon) databaseReport() func() *probes.Database {
	if d.fleet == nil {
		return nil
	}
	return d.fleet.Report
}

// exchange adds the exchange: of two processes of a reload the one that serves makes it.
func (d *Daemon) exchange(registry prometheus.Registerer) {
	if d.fleet != nil {
		d.add(registry, feature{metrics: d.fleet.Metrics(), serving: []Task{d.succeeding("database", d.fleet.Run)}})
	}
}

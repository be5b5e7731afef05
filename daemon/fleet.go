package daemon

import (
	"codex-proxy/daemon/fleet"
	"codex-proxy/proxy/auth"
)

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
	return fleet.NewExchange(fleet.Settings{
		Server: server, Host: host, Keys: d.cfg.Keys, KeysMaxAge: database.KeysMaxAge, Cache: d.cfg.KeyFile,
		Replace: func(text string) error {
			var keys auth.Keys
			if err := keys.Replace(text); err != nil || keys.Digest() == d.cfg.Keys.Digest() {
				return err
			}
			_, err := d.operators.Keys.Replace("", text)
			return err
		},
		Changed: func() { d.changes.reportChanged() }, Logger: d.logger,
	}), nil
}

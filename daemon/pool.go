package daemon

import (
	"os"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/delivery"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/workers"
	"codex-proxy/workers/dispatch"
)

const (
	// maxPrestart is the most threads that a worker has ready, of 2 MiB each.
	maxPrestart = 16
	// maxBacklog bounds the answers that wait for slow clients, in bytes; so does a quarter
	// of request_memory.
	maxBacklog = 128 << 20
)

func (d *Daemon) newPool() *workers.Pool {
	settings := workers.Settings{
		MaxInflight: d.cfg.MaxInflight, HandshakeTimeout: d.cfg.HandshakeTimeout, ResetAfter: d.cfg.ResetAfter,
		Client: appserver.Options{
			Logger: d.logger, ClientName: "codex-proxy", ClientVersion: d.version,
			Prestart: min(d.cfg.ThreadCache, maxPrestart),
			Backlog:  delivery.NewBacklog(min(maxBacklog, d.cfg.RequestMemory/4)),
		},
		AccountStore: d.accountStore, LoginSocket: loginSocket,
		Runs: units.WorkerRuns, ResetFailed: d.systemd.ResetFailed, OnChange: d.changes.reportChanged,
		OnTurnEnd: func() {
			if d.changes.turnEnded(); len(d.hosts) > 0 {
				d.brokers.TurnEnded()
			}
		}, Serving: served, Claim: d.counter.Claim, Logger: d.logger,
	}
	all := make([]*workers.Worker, 0, len(d.cfg.Workers))
	for _, name := range d.cfg.Workers {
		host := d.hosts.Of(name)
		all = append(all, workers.Served(name, host, d.cfg.Socket(host), settings))
	}
	queue := dispatch.Queue{Limit: d.cfg.QueueLimit, Timeout: d.cfg.QueueTimeout, ReadyTimeout: d.cfg.ReadyTimeout}
	return workers.NewPool(all, queue, d.changes.reportChanged)
}

// loginSocket is the socket of the unit that keeps the login of a worker; empty if the worker itself does.
func loginSocket(worker string) string {
	if _, err := os.Lstat(paths.LoginMark(worker)); err != nil {
		return ""
	}
	return paths.AccountSocket(worker)
}

func unitNames(workers []string) []string {
	names := make([]string, 0, len(workers))
	for _, worker := range workers {
		names = append(names, units.Worker(worker))
	}
	return names
}

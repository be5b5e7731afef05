package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/links"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/units"
	"codex-proxy/units/restarts"
)

// newRemotes follows the remotes of this machine.
func newRemotes(resets *restarts.Resets, changed func(), logger *slog.Logger) *remotewatch.Watch {
	return remotewatch.New(remotewatch.Settings{
		Names: func() ([]string, error) { return remoteconfig.Names(paths.RemoteSettings) },
		Ask: func(ctx context.Context, name string) (remotes.Status, error) {
			return remoteapi.AskStatus(ctx, paths.RemoteNetworkSocket(name))
		},
		Resets: resets, OnChange: changed, Logger: logger,
	})
}

// hopeless is the number of restarts in a row after which clients do not wait for a remote any more. systemd goes on.
const hopeless = 3

func newLinks(
	cfg *config.Config, systemd *units.Manager, registry prometheus.Registerer, logger *slog.Logger,
) *links.Links {
	return links.New(links.Settings{
		Keys: cfg.Keys, Socket: paths.RemoteNetworkSocket, Keepalive: cfg.Keepalive, Registry: registry, Logger: logger,
		State: func(ctx context.Context, name string) links.State { return remoteState(ctx, systemd, name) },
	})
}

// remoteState is the state of a remote as systemd has it; where systemd did not start the service, nothing is known.
func remoteState(ctx context.Context, systemd *units.Manager, name string) links.State {
	_, err := os.Stat(filepath.Join(paths.RemoteSettings, name+".toml"))
	if units.ValidRemoteName(name) != nil || errors.Is(err, fs.ErrNotExist) {
		return links.State{Name: links.Unknown, Status: "it has no file in " + paths.RemoteSettings}
	}
	unit, err := systemd.Describe(ctx, units.Remote(name))
	if err != nil {
		return links.State{Name: "not known", Status: err.Error()}
	}
	return links.State{
		Name: unit.ActiveState, Status: unit.StatusText, Down: unit.Failed() || unit.NRestarts >= hopeless &&
			!unit.Active(),
	}
}

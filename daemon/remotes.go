package daemon

import (
	"context"
	"log/slog"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remote"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/units"
)

// newRemotes follows the remotes of this machine.
func newRemotes(resets *units.Resets, changed func(), logger *slog.Logger) *remotewatch.Watch {
	return remotewatch.New(remotewatch.Settings{
		Names: func() ([]string, error) { return remote.Names(paths.RemoteSettings) },
		Ask: func(ctx context.Context, name string) (remotes.Status, error) {
			return remotes.AskStatus(ctx, paths.RemoteNetworkSocket(name))
		},
		Resets: resets, OnChange: changed, Logger: logger,
	})
}

package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/follow"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/workers"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/upgrade"
)

// renewBound bounds the question whether a remote starts again.
const renewBound = 2 * time.Second

// newFollower makes the part that changes workers and remotes to another codex, and keeps its judgement over a
// restart.
func (d *Daemon) newFollower(cfg *config.Config) (*follow.Follower, *follow.Keeper) {
	store := copies.Open()
	f := follow.New(follow.Settings{
		Store: store, Follow: cfg.Codex == copies.Follow, Fixed: cfg.Codex.Version() != "",
		Root:      upgrade.Client{Socket: paths.CopiesSocket},
		Pool:      renewing{d.pool, workers.RenewalsOf(d.pool)},
		Installed: func() (follow.Installed, error) { return installedCodex(store) },
		Edited: func(worker string) time.Time {
			info, err := os.Stat(filepath.Join(paths.Settings, "workers", worker+".toml"))
			if err != nil {
				return time.Time{}
			}
			return info.ModTime()
		},
		Remotes: d.remotes.Report,
		RenewRemote: func(ctx context.Context, name string) (done bool, err error) {
			ctx, cancel := context.WithTimeout(ctx, renewBound)
			defer cancel()
			err = remoteapi.Renew(ctx, paths.RemoteNetworkSocket(name))
			var busy *remoteapi.RefusedError
			if errors.As(err, &busy) {
				return false, nil
			}
			return err == nil, err
		},
		Predecessor: func() bool { return d.predecessor.Running() != nil },
		Logger:      d.logger,
	})
	keeper := follow.NewKeeper(f, os.Getenv("STATE_DIRECTORY"), func() bool { return serves(d) })
	if !d.predecessor.Exists() {
		keeper.Load()
	}
	return f, keeper
}

// serves reports whether this process serves, and not its predecessor or its successor.
func serves(d *Daemon) bool {
	select {
	case <-d.started:
		return !d.successor.Serves()
	default:
		return false
	}
}

// renewing is a pool whose workers start again on an order.
type renewing struct {
	*workers.Pool
	workers.Renewals
}

func installedCodex(store *copies.Store) (i follow.Installed, err error) {
	program, err := codexhome.Installed()
	if err != nil {
		return i, err
	}
	known := store.Installed(program)
	return follow.Installed{File: known.File, Copy: known.Copy, Held: known.Held != nil}, nil
}

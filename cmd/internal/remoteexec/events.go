package remoteexec

import (
	"context"
	"path/filepath"
	"time"

	"codex-proxy/cmd/internal/prepare"
	"codex-proxy/cmd/internal/remote"
	"codex-proxy/notify"
	"codex-proxy/proxy/remotes"
)

// notifyBound bounds a run of the command of [notify].
const notifyBound = 30 * time.Second

// options are those of the keeper.
func (u *Unit) options(s *remote.Settings, socket string) remotes.Options {
	return remotes.Options{
		Name: u.Name, Socket: socket, State: filepath.Join(u.Home, prepare.KeeperDir), Home: u.Home, Version: u.Version,
		Continue: remotes.Continue(s.Continue), Limit: s.ContinueLimit, IdleStop: s.IdleStop,
		Notify: func(e remotes.Event) { u.tell(s, e) }, Logger: u.logger,
	}
}

// tell runs the command of [notify] if nobody is there to see the event.
func (u *Unit) tell(s *remote.Settings, e remotes.Event) {
	switch e.Kind {
	case remotes.TurnEnded, remotes.Waiting, remotes.LimitReached, remotes.Asked:
	default:
		return
	}
	if len(s.Notify) == 0 || !e.Alone {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyBound)
		defer cancel()
		err := notify.Run(ctx, s.Notify, "CODEX_REMOTE="+u.Name, "CODEX_REMOTE_EVENT="+string(e.Kind),
			"CODEX_REMOTE_TEXT="+e.Detail)
		if err != nil {
			u.logger.Warn("the command of [notify] has failed", "error", err)
		}
	}()
}

package hereexec

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"codex-proxy/remotes"
)

// lookPeriod is how often the installed program is looked at. An installation is taken up after two looks that agree.
const lookPeriod = 5 * time.Second

// upgrade has codex start again when another one is installed, as soon as no turn runs.
type upgrade struct {
	installed func() (string, error) // the path of the program
	renew     func() error
	logger    *slog.Logger
}

// run returns when ctx ends.
func (u upgrade) run(ctx context.Context) {
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	began, last := u.look(), identity{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := u.look()
		settled := now == last
		last = now
		if now == (identity{}) || now == began || !settled {
			continue
		}
		switch err := u.renew(); {
		case err == nil:
			u.logger.Info("another codex is installed: it is started", "program", now.Path)
			return
		case !errors.Is(err, remotes.ErrBusy):
			u.logger.Warn("another codex is installed, and cannot be started", "error", err)
		}
	}
}

// look is the identity of the program; none while it is being installed.
func (u upgrade) look() identity {
	program, err := u.installed()
	if err != nil {
		return identity{}
	}
	i, err := identityOf(program)
	if err != nil {
		return identity{}
	}
	return i
}

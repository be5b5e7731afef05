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

// upgrade has codex start again when another one is installed, or other accounts are lent to it, as soon as no turn
// runs.
type upgrade struct {
	installed func() (string, error) // the path of the program
	loan      func() (string, error) // in a word
	lent      string                 // the loan with which codex has started
	renew     func() error
	logger    *slog.Logger
}

// run returns when ctx ends.
func (u upgrade) run(ctx context.Context) {
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	began, last := u.look(), start{}
	began.loan = u.lent
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := u.look()
		settled := now == last
		last = now
		if now == (start{}) || now == began || !settled {
			continue
		}
		switch err := u.renew(); {
		case err == nil && now.program == began.program:
			u.logger.Info("other accounts serve codex: it starts again", "program", now.program.Path)
			return
		case err == nil:
			u.logger.Info("another codex is installed: it is started", "program", now.program.Path)
			return
		case !errors.Is(err, remotes.ErrBusy):
			u.logger.Warn("another codex is installed, and cannot be started", "error", err)
		}
	}
}

// start is all that the next start of codex depends on.
type start struct {
	program identity
	loan    string
}

// look is the next start; the zero value while a program is being installed.
func (u upgrade) look() start {
	program, err := u.installed()
	if err != nil {
		return start{}
	}
	i, err := identityOf(program)
	if err != nil {
		return start{}
	}
	lent, err := u.loan()
	if err != nil {
		return start{}
	}
	return start{i, lent}
}

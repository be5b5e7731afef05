package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/refusal"
	"codex-proxy/notify"
	"codex-proxy/workers/homelock"
)

// Owner keeps a program the only one that uses its data.
type Owner struct {
	Refused string // the file with the reason why this start is refused, if it exists; empty: none
	Holder  string // our name for others that want the lock of a home
	Lock    string // the home, or the file to lock; empty: none
}

// SetLock reads the value of --lock, HOLDER:PATH.
func (o *Owner) SetLock(value string) error {
	holder, path, ok := strings.Cut(value, ":")
	if !ok || holder == "" || !filepath.IsAbs(path) {
		return errors.New("want HOLDER:DIR or HOLDER:FILE, such as my.service:/var/lib/my")
	}
	o.Holder, o.Lock = holder, path
	return nil
}

// Take takes the lock, which the program has to inherit: the end of this process alone does not release it. A lock
// that a command of ExecStartPre= held is free by now; a command that takes it in between keeps it for a moment, or is
// another program of the same kind. The error is the reason of a refusal, or a *homelock.HeldError. Without a lock the
// result is nil.
func (o Owner) Take(ctx context.Context) (*homelock.Lock, error) {
	if o.Refused != "" {
		reason, err := refusal.Read(o.Refused)
		if err == nil && reason != "" {
			err = errors.New(reason)
		}
		if err != nil {
			return nil, err
		}
	}
	if o.Lock == "" {
		return nil, nil
	}
	if info, err := os.Stat(o.Lock); err == nil && info.IsDir() {
		return homelock.Take(ctx, o.Lock, o.Holder)
	}
	return homelock.TakeFile(ctx, o.Lock)
}

// Exec becomes the program args, which inherits the lock. Without the lock it returns nil: the unit's main process
// reports that.
func (o Owner) Exec(ctx context.Context, args []string) error {
	lock, err := o.Take(ctx)
	if err != nil {
		return nil
	}
	var files []*os.File
	if lock != nil {
		files = append(files, lock.File())
	}
	return cli.Exit(notify.ExitExec, notify.Become(args, files...))
}

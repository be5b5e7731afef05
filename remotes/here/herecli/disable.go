package herecli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/here"
	"codex-proxy/units"
)

// Disable takes the unit of a user away, and puts back all that Enable has changed.
func (h *Here) Disable(ctx context.Context, name string) error {
	r, err := h.Records.Get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return notEnabled(name)
	}
	if err != nil {
		return err
	}
	// The link first: no client should start the unit again. Its faults end nothing: the home may be gone.
	faults := errors.Join(r.In().Unlink(socket(name), r.Made), removeLoan(name))
	err = bounded(ctx, func(ctx context.Context) error {
		for _, unit := range []string{units.HereSocket(name), units.Here(name)} {
			if err := h.Systemd.Stop(ctx, unit); err != nil {
				return err
			}
		}
		if err := h.Systemd.Disable(ctx, units.HereSocket(name)); err != nil {
			return err
		}
		return errors.Join(h.Systemd.ResetFailed(ctx, units.Here(name)),
			h.Systemd.ResetFailed(ctx, units.HereSocket(name)))
	})
	if err != nil && (!errors.Is(err, units.ErrNoBus) || running()) {
		return errors.Join(faults, err)
	}
	store := copies.Open()
	faults = errors.Join(faults, removed(socket(name)), os.RemoveAll(filepath.Join(paths.HereStates, name)),
		store.Assign(ctx, units.Here(name), ""), h.Records.Remove(name))
	if rest, err := h.Records.All(); err == nil && len(rest) == 0 {
		faults = errors.Join(faults, here.RemoveConfig(h.Config))
	}
	if _, err := store.Prune(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
		faults = errors.Join(faults, err)
	}
	if faults == nil {
		h.print("A bare codex of %s runs as before, without a unit. Threads and settings are in %s/.codex, as ever.",
			name, r.Home)
	}
	return faults
}

// DisableAll is Disable for all users.
func (h *Here) DisableAll(ctx context.Context) error {
	list, err := h.Records.All()
	for _, r := range list {
		err = errors.Join(err, h.Disable(ctx, r.User))
	}
	return err
}

// running reports whether systemd runs here (sd_booted(3)): in an image or a chroot no unit does.
func running() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

func removed(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package units

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrDenied means that polkit does not let this process manage a unit.
var ErrDenied = errors.New("systemd refuses: polkit denies it (is the polkit rule of this package installed?)")

// permittedPause is the pause between two attempts of Permitted.
const permittedPause = 250 * time.Millisecond

// Permitted returns nil if systemd lets this process manage the unit, which need not exist, and ErrDenied, wrapped, if
// polkit denies it. While systemd or polkit does not answer it asks again, until ctx ends. It sets no property of the
// unit, for which systemd asks polkit as for any other one; a process that is not root may not ask polkit itself.
func (m *Manager) Permitted(ctx context.Context, unit string) error {
	pause := time.NewTicker(permittedPause)
	defer pause.Stop()
	for {
		err := m.ask(ctx, func(ctx context.Context, b *bus) error {
			return b.manager(ctx, "SetUnitProperties", unit, true, []setting{}).Err
		})
		if err == nil {
			return nil
		}
		if denied(err) {
			return fmt.Errorf("cannot manage %s: %w", unit, ErrDenied)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot manage %s: %w", unit, refusal(err))
		case <-pause.C:
		}
	}
}

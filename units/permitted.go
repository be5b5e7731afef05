package units

import (
	"context"
	"fmt"
)

// Permitted returns an error if systemd does not answer, or does not let this process manage the unit, which need not
// exist. It sets no property of the unit, for which systemd asks polkit as for any other one; a process that is not root
// may not ask polkit about a unit itself.
func (m *Manager) Permitted(ctx context.Context, unit string) error {
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		return refusal(b.manager(ctx, "SetUnitProperties", unit, true, []setting{}).Err)
	})
	if err != nil {
		return fmt.Errorf("cannot manage %s: %w", unit, err)
	}
	return nil
}

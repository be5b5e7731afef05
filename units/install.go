package units

import (
	"context"
	"errors"

	"codex-proxy/units/bus"
)

// Enable makes systemd start the unit together with those that its [Install] section
// names. It does not start the unit. After an error the unit is not enabled.
func (m *Manager) Enable(ctx context.Context, unit string) error {
	const forThisBootOnly, replaceOthers = false, false
	err := m.install(ctx, "enable", "EnableUnitFiles", unit, forThisBootOnly, replaceOthers)
	if err == nil || errors.Is(err, ErrNoBus) {
		return err
	}
	// The links may exist although systemd has not read them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*bus.CallTimeout)
	defer cancel()
	return errors.Join(err, m.Disable(ctx, unit))
}

// Disable undoes Enable. It does not stop the unit.
func (m *Manager) Disable(ctx context.Context, unit string) error {
	const forThisBootOnly = false
	return m.install(ctx, "disable", "DisableUnitFiles", unit, forThisBootOnly)
}

// Reload makes the unit reload its configuration, and waits as Start does.
func (m jobs) Reload(ctx context.Context, unit string) error {
	return m.job(ctx, "reload", "ReloadUnit", unit)
}

// install changes the links between units, and makes systemd read them.
func (m *Manager) install(ctx context.Context, verb, method, unit string, flags ...any) error {
	return m.ask(ctx, verb+" "+unit, func(ctx context.Context, b *bus.Conn) error {
		if err := b.Call(ctx, method, append([]any{[]string{unit}}, flags...)...).Err; err != nil {
			return bus.Refusal(err)
		}
		return bus.Refusal(b.Call(ctx, "Reload").Err)
	})
}

// DaemonReload makes systemd run its generators and read all unit files again.
func (m *Manager) DaemonReload(ctx context.Context) error {
	return m.call(ctx, "make systemd read the unit files (systemctl daemon-reload)", "Reload")
}

package units

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units/bus"
)

// ErrNoPolkit means that polkit is not installed: then only root may manage units.
var ErrNoPolkit = errors.New("polkit is not on the system bus")

// MayManage asks polkit whether a process of the user uid may do verb (start,
// stop, restart, reset-failed, …) to unit without a password. It changes nothing.
// Only root may ask for other users.
func (m *Manager) MayManage(ctx context.Context, uid uint32, unit, verb string) (bool, error) {
	var answer struct {
		Authorized, Challenge bool
		Details               map[string]string
	}
	err := m.with(ctx, unheard, func(ctx context.Context, b *bus.Conn) error {
		authority := b.Object("org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority")
		call := authority.CallWithContext(ctx, "org.freedesktop.PolicyKit1.Authority.CheckAuthorization", 0,
			processOf(uid), "org.freedesktop.systemd1.manage-units", map[string]string{"unit": unit, "verb": verb},
			uint32(0), "")
		return call.Store(&answer)
	})
	if bus.IsError(err, "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner") {
		return false, ErrNoPolkit
	}
	if err != nil {
		return false, fmt.Errorf("cannot ask polkit: %v", err)
	}
	return answer.Authorized, nil
}

// subject is polkit's description of the process that asks.
type subject struct {
	Kind    string
	Details map[string]dbus.Variant
}

// processOf is this process as if it belonged to uid. polkit looks up the start time,
// which is 0 here.
func processOf(uid uint32) subject {
	return subject{"unix-process", map[string]dbus.Variant{
		"pid":        dbus.MakeVariant(uint32(os.Getpid())),
		"start-time": dbus.MakeVariant(uint64(0)),
		"uid":        dbus.MakeVariant(int32(uid)),
	}}
}

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
		err := m.with(ctx, unheard, func(ctx context.Context, b *bus.Conn) error {
			return b.Call(ctx, "SetUnitProperties", unit, true, []setting{}).Err
		})
		if err == nil {
			return nil
		}
		if bus.Denied(err) {
			return fmt.Errorf("cannot manage %s: %w", unit, ErrDenied)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot manage %s: %w", unit, bus.Refusal(err))
		case <-pause.C:
		}
	}
}

package units

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/godbus/dbus/v5"
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
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		authority := b.conn.Object("org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority")
		call := authority.CallWithContext(ctx, "org.freedesktop.PolicyKit1.Authority.CheckAuthorization", 0,
			processOf(uid), "org.freedesktop.systemd1.manage-units", map[string]string{"unit": unit, "verb": verb},
			uint32(0), "")
		return call.Store(&answer)
	})
	if isError(err, "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner") {
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

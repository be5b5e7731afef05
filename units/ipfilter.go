package units

import (
	"context"
	"net/netip"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// network is an element of IPAddressAllow, org.freedesktop.systemd1(5): a(iayu).
type network struct {
	Family int32
	Bytes  []byte
	Bits   uint32
}

// change is an argument of SetUnitProperties: a(sv).
type change struct {
	Name  string
	Value dbus.Variant
}

// AllowNetworks sets the unit's IPAddressAllow= to these networks alone, until the
// next boot. It takes effect at once.
func (m *Manager) AllowNetworks(ctx context.Context, unit string, networks []netip.Prefix) error {
	allow := []network{}
	for _, p := range networks {
		family := int32(unix.AF_INET6)
		if p.Addr().Is4() {
			family = unix.AF_INET
		}
		allow = append(allow, network{family, p.Addr().AsSlice(), uint32(p.Bits())})
	}
	const name, runtime = "IPAddressAllow", true
	changes := []change{
		{name, dbus.MakeVariant([]network{})}, // an empty list clears; one with elements adds
		{name, dbus.MakeVariant(allow)},
	}
	return m.call(ctx, "let "+unit+" reach the networks that it needs", "SetUnitProperties", unit, runtime, changes)
}

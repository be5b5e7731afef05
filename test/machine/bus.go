package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// busTimeout bounds the wait for systemd on the system bus.
const busTimeout = time.Minute

// awaitBus returns when systemd is on the system bus. systemd connects some time
// after the start of dbus.service, often after its own READY=1.
func (m *Machine) awaitBus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	conn, err := m.bus(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return awaitName(ctx, conn, managerName)
}

// bus connects to the system bus, until the end of ctx.
func (m *Machine) bus(ctx context.Context) (*dbus.Conn, error) {
	socket, err := m.DialUnix(ctx, "/run/dbus/system_bus_socket")
	if err != nil {
		return nil, fmt.Errorf("cannot reach D-Bus: %w (is dbus installed in the root?)", err)
	}
	conn, err := dbus.NewConn(socket, dbus.WithContext(ctx))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot use D-Bus: %w", err), socket.Close())
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal("0")}); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot log in to D-Bus: %w", err), conn.Close())
	}
	if err := conn.Hello(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot use D-Bus: %w", err), conn.Close())
	}
	return conn, nil
}

func awaitName(ctx context.Context, conn *dbus.Conn, name string) error {
	changes := make(chan *dbus.Signal, 16)
	conn.Signal(changes)
	err := conn.AddMatchSignalContext(ctx, dbus.WithMatchSender("org.freedesktop.DBus"),
		dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, name))
	for err == nil { // the match comes first, so that no change is missed
		var there bool
		err = conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, name).Store(&there)
		if there || err != nil {
			break
		}
		select {
		case <-changes:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("cannot find %s on D-Bus: %w", name, err)
	}
	return nil
}

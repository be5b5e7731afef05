package units

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units/bus"
)

// ErrNotMain means that a process is not the main one of a service.
var ErrNotMain = errors.New("the process is not the main process of a service")

// MainProcess is the main process of a service.
type MainProcess struct {
	Unit string
	// Run is of this process alone: a later one with the same number has another.
	Run string
}

// MainProcessOf returns the service with the main process pid. The error is ErrNotMain, wrapped, if no service has it.
func (m *Manager) MainProcessOf(ctx context.Context, pid uint32) (p MainProcess, err error) {
	err = m.with(ctx, unheard, func(ctx context.Context, b *bus.Conn) error {
		var unit dbus.ObjectPath
		err := b.Call(ctx, "GetUnitByPID", pid).Store(&unit)
		if bus.IsError(err, "org.freedesktop.systemd1.NoUnitForPID", "org.freedesktop.systemd1.NoSuchProcess") {
			return ErrNotMain
		}
		if err != nil {
			return bus.Refusal(err)
		}
		if !strings.HasSuffix(string(unit), "_2eservice") { // such as a session's scope
			return ErrNotMain
		}
		var main uint32
		var started uint64
		var invocation []byte
		err = errors.Join(
			b.Property(ctx, unit, "Unit", "Id", &p.Unit),
			b.Property(ctx, unit, "Unit", "InvocationID", &invocation),
			b.Property(ctx, unit, "Service", "ExecMainStartTimestampMonotonic", &started),
			b.Property(ctx, unit, "Service", "MainPID", &main),
		)
		if err == nil && (main != pid || pid == 0) {
			err = ErrNotMain
		}
		p.Run = fmt.Sprintf("%s %d", hex.EncodeToString(invocation), started)
		return err
	})
	if err != nil {
		return MainProcess{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return p, nil
}

package units

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"

	"codex-proxy/units/bus"
)

// Property is a setting of a unit's cgroup that systemd can change while the unit runs or before it starts, such as
// MemoryMax or TasksMax, by its name and type t in org.freedesktop.systemd1(5).
type Property struct {
	Name  string
	Value uint64
}

// setting is a Property on the wire.
type setting struct {
	Name  string
	Value dbus.Variant
}

// StartWith is Start after properties were set until the next boot (SetUnitProperties with runtime). systemd keeps
// them in files below /run/systemd/system.control. It keeps its connection for later calls, as making one takes seven
// round trips.
func (m jobs) StartWith(ctx context.Context, unit string, properties ...Property) error {
	settings := make([]setting, len(properties))
	for i, p := range properties {
		settings[i] = setting{p.Name, dbus.MakeVariant(p.Value)}
	}
	requested, err := m.request(ctx)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", unit, err)
	}
	defer requested()
	err = m.launch(ctx, func(ctx context.Context, l *launcher) error {
		if err := l.bus.Call(ctx, "SetUnitProperties", unit, true, settings).Err; err != nil {
			return bus.Refusal(err)
		}
		if err := l.resubscribe(ctx); err != nil {
			return bus.Unanswered(err)
		}
		return l.jobs.run(ctx, l.bus, "StartUnit", unit, requested)
	})
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", unit, err)
	}
	return nil
}

// launcher is a connection that reports the ends of jobs. One call at a time has it.
type launcher struct {
	bus  *bus.Conn
	jobs *jobResults
}

// maxIdle is the number of connections that are kept.
const maxIdle = 4

// launch calls do with a launcher, and keeps that unless it is of no use any more.
func (m *caller) launch(ctx context.Context, do func(context.Context, *launcher) error) error {
	return m.bounded(ctx, func(ctx context.Context) error {
		l, err := m.launcher(ctx)
		if err != nil {
			return err
		}
		err = do(ctx, l)
		l.jobs.rest()
		select {
		case m.idle <- l:
			m.dropIfClosed()
		default:
			l.bus.Close()
		}
		return err
	})
}

// launcher returns one that is kept, or a new one.
func (m *caller) launcher(ctx context.Context) (*launcher, error) {
	for {
		select {
		case l := <-m.idle:
			if !l.bus.HasLost() {
				return l, nil
			}
			l.bus.Close()
			continue
		default:
		}
		jobs := newJobResults()
		b, err := bus.Connect(ctx, bus.LastHelloTimeout, jobs.signal)
		if err != nil {
			return nil, bus.Unanswered(err)
		}
		if err := reportJobs(ctx, b); err != nil {
			b.Close()
			return nil, bus.Unanswered(err)
		}
		return &launcher{b, jobs}, nil
	}
}

// resubscribe has systemd report jobs again if it is another one since the last call, after a daemon-reexec. It is to
// follow a reply: the signal about the change arrives before it.
func (l *launcher) resubscribe(ctx context.Context) error {
	select {
	case <-l.bus.OwnerChanged():
		return l.bus.Subscribe(ctx)
	default:
		return nil
	}
}

// dropIfClosed closes the idle launchers if the manager is closed.
func (m *caller) dropIfClosed() {
	select {
	case <-m.closed:
	default:
		return
	}
	for {
		select {
		case l := <-m.idle:
			l.bus.Close()
		default:
			return
		}
	}
}

// listed is a unit of ListUnitsByPatterns.
type listed struct {
	Name, Description, Load, Active, Sub, Following string

	Path    dbus.ObjectPath
	Job     uint32
	JobType string
	JobPath dbus.ObjectPath
}

// List returns the units that systemd has in memory with a name that matches one of the patterns of glob(7). Of a State
// it has the name, the three states and JobPending.
func (m *Manager) List(ctx context.Context, patterns ...string) ([]State, error) {
	var units []listed
	err := m.ask(ctx, "list units", func(ctx context.Context, b *bus.Conn) error {
		return bus.Refusal(b.Call(ctx, "ListUnitsByPatterns", []string{}, patterns).Store(&units))
	})
	if err != nil {
		return nil, err
	}
	states := make([]State, len(units))
	for i, u := range units {
		states[i] = State{
			Unit: u.Name, LoadState: u.Load, ActiveState: u.Active, SubState: u.Sub, JobPending: u.Job != 0,
		}
	}
	return states, nil
}

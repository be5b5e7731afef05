package restartdelay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"

	"codex-proxy/internal/nudge"
	"codex-proxy/units/bus"
	"codex-proxy/units/properties"
)

// holdback is a start of a service that its own process holds back, because a
// systemd before 254 has no growing delays and waits for RestartSec= alone. The
// zero holdback holds nothing back.
type holdback struct {
	Restart      uint32        // the number of the restart, from 1
	Wait         time.Duration // the rest of the delay
	StartTimeout time.Duration // TimeoutStartSec=, 0: not set

	job dbus.ObjectPath
}

// lookAgain is how often a wait checks for a reset of the unit, which no signal carries.
const lookAgain = 200 * time.Millisecond

// heldProperties are the properties that a holdback derives from.
var heldProperties = properties.Set{
	"FragmentPath": properties.Unit("s"),
	"DropInPaths":  properties.Unit("as"),
	"Job":          properties.Unit("(uo)"),

	"InactiveExitTimestampMonotonic": properties.Unit("t"),

	"NRestarts":        properties.Service("u"),
	"RestartUSec":      properties.Service("t"),
	"RestartSteps":     properties.Service("u"),
	"TimeoutStartUSec": properties.Service("t"),
}

// holdBack returns when the start of our own unit may go on: at once where systemd has growing delays or the start is
// no automatic restart, and else after the rest of the delay that systemd 254 would have waited. A reset of the unit
// ends the wait, and so does an explicit start. holdBack calls each before the wait and a few times a second during it,
// with the rest of the delay. Without the bus the wait goes on to its end. The error is the error of ctx, or of the
// question to systemd.
func holdBack(ctx context.Context, each func(holdback)) error {
	started := nudge.New()
	b, err := bus.Connect(ctx, bus.LastHelloTimeout, func(*dbus.Signal) { started.Touch() })
	if err == nil {
		defer b.Close()
		err = (&ownUnit{bus: b, started: started}).holdBack(ctx, each)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("cannot ask systemd about our own restart delay: %w", err)
	}
	return nil
}

// ownUnit is the unit of this process.
type ownUnit struct {
	bus     *bus.Conn
	path    dbus.ObjectPath
	started <-chan struct{} // holds a token after a change of the unit's job
}

func (u *ownUnit) holdBack(ctx context.Context, each func(holdback)) (err error) {
	if u.path, err = u.bus.OwnUnit(ctx); err != nil {
		return err
	}
	held, err := u.heldBack(ctx)
	if err != nil || held.Wait <= 0 {
		return err
	}
	_ = u.followJob(ctx, held.job)
	for held.Wait > 0 {
		each(held)
		look := time.NewTimer(min(held.Wait, lookAgain))
		select {
		case <-look.C:
			held = u.stillHeld(ctx, held)
		case <-u.started:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// followJob subscribes to the job of the automatic restart: an operator's start joins
// it, which systemd announces as a change of the job.
func (u *ownUnit) followJob(ctx context.Context, job dbus.ObjectPath) error {
	const rule = "type='signal',sender='" + bus.ManagerName + "',interface='org.freedesktop.DBus.Properties'," +
		"member='PropertiesChanged',path='"
	if err := u.bus.Match(ctx, rule+string(job)+"'"); err != nil {
		return err
	}
	return u.bus.FollowOwner(ctx)
}

// stillHeld asks again. A systemd that does not answer prolongs no wait.
func (u *ownUnit) stillHeld(ctx context.Context, before holdback) holdback {
	asked := time.Now().Add(-min(before.Wait, lookAgain))
	bounded, cancel := context.WithDeadline(ctx, asked.Add(before.Wait))
	defer cancel()
	now, err := u.heldBack(bounded)
	if err == nil {
		return now
	}
	before.Wait -= time.Since(asked)
	return before
}

func (u *ownUnit) heldBack(ctx context.Context) (holdback, error) {
	names := slices.Collect(maps.Keys(heldProperties))
	answers, err := properties.Read(ctx, u.bus, u.path, heldProperties, names)
	if err != nil {
		return holdback{}, bus.Refusal(err)
	}
	v := make(properties.Values)
	v.LearnAll(answers)
	return holdbackOf(v), nil
}

// holdbackOf counts from the start of the unit: before 254 the unit passes through
// inactive after its wait for the automatic restart. systemd has waited RestartSec=.
func holdbackOf(v properties.Values) holdback {
	restart := v.Uint32("NRestarts")
	if !v.Missing("RestartSteps") || restart == 0 {
		return holdback{}
	}
	wait := v.RestOfDelay(restart) - v.Age("InactiveExitTimestampMonotonic")
	h := holdback{Restart: restart, Wait: wait, StartTimeout: v.Duration("TimeoutStartUSec")}
	if job, _ := properties.Value[[]any](v, "Job"); len(job) == 2 {
		h.job, _ = job[1].(dbus.ObjectPath)
	}
	return h
}

package units

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// Holdback is a start of a service that its own process holds back, because a
// systemd before 254 has no growing delays and waits for RestartSec= alone. The
// zero Holdback holds nothing back.
type Holdback struct {
	Restart      uint32        // the number of the restart, from 1
	Wait         time.Duration // the rest of the delay
	StartTimeout time.Duration // TimeoutStartSec=, 0: not set

	job dbus.ObjectPath
}

// lookAgain is how often a wait checks for a reset of the unit, which no signal carries.
const lookAgain = 200 * time.Millisecond

// heldProperties are the properties that a Holdback derives from.
var heldProperties = map[string]property{
	"FragmentPath": {unitIface, "s"},
	"DropInPaths":  {unitIface, "as"},
	"Job":          {unitIface, "(uo)"},

	"InactiveExitTimestampMonotonic": {unitIface, "t"},

	"NRestarts":        {serviceIface, "u"},
	"RestartUSec":      {serviceIface, "t"},
	"RestartSteps":     {serviceIface, "u"},
	"TimeoutStartUSec": {serviceIface, "t"},
}

// HoldBack returns when the start of our own unit may go on: at once where systemd has growing delays or the start is
// no automatic restart, and else after the rest of the delay that systemd 254 would have waited. A reset of the unit
// ends the wait, and so does an explicit start. HoldBack calls each before the wait and a few times a second during it,
// with the rest of the delay. Without the bus the wait goes on to its end. The error is the error of ctx, or of the
// question to systemd.
func (m *Manager) HoldBack(ctx context.Context, each func(Holdback)) error {
	started := make(chan struct{}, 1)
	err := m.with(ctx, func(*dbus.Signal) { kick(started) }, func(ctx context.Context, b *bus) error {
		unit, err := b.ownUnit(ctx)
		if err != nil {
			return err
		}
		held, err := b.heldBack(ctx, unit)
		if err == nil && held.Wait > 0 {
			_ = b.followJob(ctx, held.job)
			err = b.holdBack(ctx, unit, held, started, each)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("cannot ask systemd about our own restart delay: %w", err)
	}
	return err
}

func (b *bus) holdBack(ctx context.Context, unit dbus.ObjectPath, held Holdback,
	started <-chan struct{}, each func(Holdback)) error {
	for held.Wait > 0 {
		each(held)
		look := time.NewTimer(min(held.Wait, lookAgain))
		select {
		case <-look.C:
			held = b.stillHeld(ctx, unit, held)
		case <-started:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// followJob subscribes to the job of the automatic restart: an operator's start joins
// it, which systemd announces as a change of the job.
func (b *bus) followJob(ctx context.Context, job dbus.ObjectPath) error {
	const rule = "type='signal',sender='" + managerName + "',interface='org.freedesktop.DBus.Properties'," +
		"member='PropertiesChanged',path='"
	if err := b.match(ctx, rule+string(job)+"'"); err != nil {
		return err
	}
	return b.followOwner(ctx)
}

// stillHeld asks again. A systemd that does not answer prolongs no wait.
func (b *bus) stillHeld(ctx context.Context, unit dbus.ObjectPath, before Holdback) Holdback {
	asked := time.Now().Add(-min(before.Wait, lookAgain))
	bounded, cancel := context.WithDeadline(ctx, asked.Add(before.Wait))
	defer cancel()
	now, err := b.heldBack(bounded, unit)
	if err == nil {
		return now
	}
	before.Wait -= time.Since(asked)
	return before
}

func (b *bus) heldBack(ctx context.Context, unit dbus.ObjectPath) (Holdback, error) {
	names := slices.Collect(maps.Keys(heldProperties))
	answers, err := b.properties(ctx, unit, heldProperties, names)
	if err != nil {
		return Holdback{}, refusal(err)
	}
	f := make(facts)
	for _, a := range answers {
		f.learn(a.name, a.value, a.seq)
	}
	return f.holdback(), nil
}

// holdback counts from the start of the unit: before 254 the unit passes through
// inactive after its wait for the automatic restart. systemd has waited RestartSec=.
func (f facts) holdback() Holdback {
	restart := f.uint32("NRestarts")
	if f["RestartSteps"].value != (missing{}) || restart == 0 {
		return Holdback{}
	}
	wait := f.restartDelays().rest(restart) - f.age("InactiveExitTimestampMonotonic")
	h := Holdback{Restart: restart, Wait: wait, StartTimeout: f.duration("TimeoutStartUSec")}
	if job, _ := f["Job"].value.([]any); len(job) == 2 {
		h.job, _ = job[1].(dbus.ObjectPath)
	}
	return h
}

const (
	heldPrefix = "Backing off until "
	heldFormat = "2006-01-02T15:04:05.000Z07:00" // RFC 3339
)

// Status is the STATUS= of the process that waits. The watcher recognises the wait
// by it.
func (h Holdback) Status(until time.Time) string {
	return fmt.Sprintf("%s%s, before restart %d", heldPrefix, until.UTC().Format(heldFormat), h.Restart)
}

// heldUntil parses Holdback.Status.
func heldUntil(status string) (until time.Time, held bool) {
	text, held := strings.CutPrefix(status, heldPrefix)
	text, _, _ = strings.Cut(text, ",")
	until, err := time.Parse(time.RFC3339, text)
	return until, held && err == nil
}

// held reports whether the unit's own process holds its restart back, and until
// when. It does from the automatic restart on, until the first ExecStartPre= reports
// another status.
func (f facts) held() (until time.Time, held bool) {
	restart, sub, status := f.uint32("NRestarts"), f.text("SubState"), f.text("StatusText")
	starting := f.text("ActiveState") == "activating" && sub != "auto-restart"
	if f["RestartUSecNext"].value != (missing{}) || !starting || restart == 0 {
		return time.Time{}, false
	}
	if until, held = heldUntil(status); held || sub != "start-pre" || status != "" {
		return until, held
	}
	return f.time("InactiveExitTimestamp").Add(f.restartDelays().rest(restart)), true
}

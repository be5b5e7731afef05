package units

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Job returns the type of the unit's job: "start", "stop", "restart", "reload" and
// so on, or "" if it has none.
func (m *Manager) Job(ctx context.Context, unit string) (string, error) {
	var kind string
	err := m.ask(ctx, func(ctx context.Context, b *bus) error {
		job, err := b.job(ctx, unit)
		if err != nil || job == "" {
			return err
		}
		return b.property(ctx, job, "Job", "JobType", &kind)
	})
	if err != nil {
		return "", fmt.Errorf("cannot find the job of %s: %w", unit, err)
	}
	return kind, nil
}

// AwaitJob waits until the unit's job ends with any result, or ctx ends. It returns
// at once if the unit has no job.
func (m *Manager) AwaitJob(ctx context.Context, unit string) error {
	jobs := newJobResults()
	err := m.with(ctx, jobs.signal, func(ctx context.Context, b *bus) error {
		jobs.await()
		if err := b.reportJobs(ctx); err != nil {
			return err
		}
		job, err := b.job(ctx, unit)
		if err != nil || job == "" {
			return err
		}
		_, err = jobs.result(ctx, b, job)
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot wait for the job of %s: %w", unit, err)
	}
	return nil
}

// job is the unit's job; empty if it has none.
func (b *bus) job(ctx context.Context, unit string) (dbus.ObjectPath, error) {
	var path dbus.ObjectPath
	if err := b.manager(ctx, "GetUnit", unit).Store(&path); err != nil {
		return "", refusal(err)
	}
	var job struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	if err := b.property(ctx, path, "Unit", "Job", &job); err != nil || job.ID == 0 {
		return "", err
	}
	return job.Path, nil
}

// property reads one property of one of systemd's objects, bounded.
func (b *bus) property(ctx context.Context, path dbus.ObjectPath, iface, name string, value any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var v dbus.Variant
	err := b.conn.Object(managerName, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get",
		dbus.FlagNoAutoStart, managerName+"."+iface, name).Store(&v)
	if err != nil {
		return refusal(err)
	}
	return v.Store(value)
}

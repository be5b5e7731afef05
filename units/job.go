package units

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"

	"github.com/godbus/dbus/v5"

	"codex-proxy/internal/nudge"
	"codex-proxy/units/bus"
)

var errJobLost = bus.Unanswered(fmt.Errorf("%w before systemd reported the result of the job", bus.ErrLost))

// errJobForgotten is the same for a systemd that has executed itself anew meanwhile.
var errJobForgotten = bus.Unanswered(
	errors.New("systemd has executed itself anew, and the result of the job is unknown"))

const jobRemovedRule = "type='signal',sender='" + bus.ManagerName + "',path='" + bus.ManagerPath +
	"',interface='" + bus.ManagerIface + "',member='JobRemoved'"

// reportJobs has systemd report the ends of jobs on the connection.
func reportJobs(ctx context.Context, b *bus.Conn) error {
	if err := b.Match(ctx, jobRemovedRule); err != nil {
		return err
	}
	return b.FollowOwner(ctx)
}

// jobResults collects the results of systemd's jobs while a caller waits for one of
// them. A job may end before its caller has read the reply that names it.
type jobResults struct {
	ended nudge.Nudge

	mu      sync.Mutex
	results map[dbus.ObjectPath]string
	awaited bool // a caller waits, or is about to
}

func newJobResults() *jobResults {
	return &jobResults{ended: nudge.New(), results: make(map[dbus.ObjectPath]string)}
}

// signal processes JobRemoved(id, job, unit, result).
func (j *jobResults) signal(s *dbus.Signal) {
	var id uint32
	var job dbus.ObjectPath
	var unit, result string
	if s.Name != bus.ManagerIface+".JobRemoved" || dbus.Store(s.Body, &id, &job, &unit, &result) != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.awaited {
		j.results[job] = result
		j.ended.Touch()
	}
}

// run requests a job on a connection of reportJobs, calls requested, and waits for the end of the job.
func (j *jobResults) run(ctx context.Context, b *bus.Conn, method, unit string, requested func()) error {
	j.await()
	var job dbus.ObjectPath
	err := b.Call(ctx, method, unit, "replace").Store(&job)
	if err != nil && b.HasLost() && ctx.Err() == nil {
		return errJobLost
	}
	if err != nil {
		return bus.Refusal(err)
	}
	requested()
	return j.wait(ctx, b, job)
}

func (j *jobResults) await() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.awaited = true
}

// rest drops all results until the next run.
func (j *jobResults) rest() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.awaited = false
	clear(j.results)
}

// wait waits for the end of the job; the error is nil if it was done.
func (j *jobResults) wait(ctx context.Context, b *bus.Conn, job dbus.ObjectPath) error {
	result, err := j.result(ctx, b, job)
	if err != nil {
		return err
	}
	return jobError(result)
}

// result waits for the job's result. It drops the results of other jobs.
func (j *jobResults) result(ctx context.Context, b *bus.Conn, job dbus.ObjectPath) (string, error) {
	for {
		if result, ok := j.take(job); ok {
			return result, nil
		}
		select {
		case <-j.ended:
		case <-b.OwnerChanged():
			if err := j.follow(ctx, b, job); err != nil {
				return "", err
			}
		case <-b.Lost():
			return "", errJobLost
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// follow goes on with a job after a daemon-reexec. The new systemd has the job of the old one, unless that has ended:
// then its result may be lost, if no signal has brought it before the answer.
func (j *jobResults) follow(ctx context.Context, b *bus.Conn, job dbus.ObjectPath) error {
	if !b.HasOwner() {
		return nil // the new one is not on the bus yet
	}
	if err := b.Subscribe(ctx); err != nil {
		return bus.Unanswered(err)
	}
	id, err := strconv.ParseUint(path.Base(string(job)), 10, 32)
	if err == nil {
		err = b.Call(ctx, "GetJob", uint32(id)).Err
	}
	if err != nil && !j.has(job) {
		return errJobForgotten
	}
	return nil
}

func (j *jobResults) has(job dbus.ObjectPath) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.results[job]
	return ok
}

func (j *jobResults) take(job dbus.ObjectPath) (string, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	result, ok := j.results[job]
	clear(j.results)
	return result, ok
}

// jobError is the error of a job's result (org.freedesktop.systemd1(5), JobRemoved).
func jobError(result string) error {
	switch result {
	case "done":
		return nil
	case "failed":
		return fmt.Errorf("the job failed (see the unit's journal)")
	case "canceled":
		return fmt.Errorf("another job took its place")
	case "timeout":
		return fmt.Errorf("the job took too long")
	case "dependency":
		return fmt.Errorf("a unit that it needs failed to start")
	}
	return fmt.Errorf("the job ended as %q", result)
}

// Job returns the type of the unit's job: "start", "stop", "restart", "reload" and
// so on, or "" if it has none.
func (m jobs) Job(ctx context.Context, unit string) (string, error) {
	var kind string
	err := m.ask(ctx, "find the job of "+unit, func(ctx context.Context, b *bus.Conn) error {
		job, err := jobOf(ctx, b, unit)
		if err != nil || job == "" {
			return err
		}
		return b.Property(ctx, job, "Job", "JobType", &kind)
	})
	return kind, err
}

// AwaitJob waits until the unit's job ends with any result, or ctx ends. It returns
// at once if the unit has no job.
func (m jobs) AwaitJob(ctx context.Context, unit string) error {
	jobs := newJobResults()
	err := m.with(ctx, jobs.signal, func(ctx context.Context, b *bus.Conn) error {
		jobs.await()
		if err := reportJobs(ctx, b); err != nil {
			return err
		}
		job, err := jobOf(ctx, b, unit)
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

// jobOf is the unit's job; empty if it has none.
func jobOf(ctx context.Context, b *bus.Conn, unit string) (dbus.ObjectPath, error) {
	var path dbus.ObjectPath
	if err := b.Call(ctx, "GetUnit", unit).Store(&path); err != nil {
		return "", bus.Refusal(err)
	}
	var job struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	if err := b.Property(ctx, path, "Unit", "Job", &job); err != nil || job.ID == 0 {
		return "", err
	}
	return job.Path, nil
}

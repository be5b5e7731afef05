package units

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"

	"github.com/godbus/dbus/v5"
)

var errJobLost = unanswered(fmt.Errorf("%w before systemd reported the result of the job", errBusLost))

// errJobForgotten is the same for a systemd that has executed itself anew meanwhile.
var errJobForgotten = unanswered(errors.New("systemd has executed itself anew, and the result of the job is unknown"))

const jobRemovedRule = "type='signal',sender='" + managerName + "',path='" + managerPath +
	"',interface='" + managerIface + "',member='JobRemoved'"

// jobResults collects the results of systemd's jobs while a caller waits for one of
// them. A job may end before its caller has read the reply that names it.
type jobResults struct {
	ended chan struct{}

	mu      sync.Mutex
	results map[dbus.ObjectPath]string
	awaited bool // a caller waits, or is about to
}

func newJobResults() *jobResults {
	return &jobResults{ended: make(chan struct{}, 1), results: make(map[dbus.ObjectPath]string)}
}

// signal processes JobRemoved(id, job, unit, result).
func (j *jobResults) signal(s *dbus.Signal) {
	var id uint32
	var job dbus.ObjectPath
	var unit, result string
	if s.Name != managerIface+".JobRemoved" || dbus.Store(s.Body, &id, &job, &unit, &result) != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.awaited {
		j.results[job] = result
		kick(j.ended)
	}
}

// run requests a job on a connection of reportJobs, calls requested, and waits for the end of the job.
func (j *jobResults) run(ctx context.Context, b *bus, method, unit string, requested func()) error {
	j.await()
	var job dbus.ObjectPath
	err := b.manager(ctx, method, unit, "replace").Store(&job)
	if err != nil && b.hasLost() && ctx.Err() == nil {
		return errJobLost
	}
	if err != nil {
		return refusal(err)
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
func (j *jobResults) wait(ctx context.Context, b *bus, job dbus.ObjectPath) error {
	result, err := j.result(ctx, b, job)
	if err != nil {
		return err
	}
	return jobError(result)
}

// result waits for the job's result. It drops the results of other jobs.
func (j *jobResults) result(ctx context.Context, b *bus, job dbus.ObjectPath) (string, error) {
	for {
		if result, ok := j.take(job); ok {
			return result, nil
		}
		select {
		case <-j.ended:
		case <-b.from.changed:
			if err := j.follow(ctx, b, job); err != nil {
				return "", err
			}
		case <-b.lost():
			return "", errJobLost
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// follow goes on with a job after a daemon-reexec. The new systemd has the job of the old one, unless that has ended:
// then its result may be lost, if no signal has brought it before the answer.
func (j *jobResults) follow(ctx context.Context, b *bus, job dbus.ObjectPath) error {
	if b.from.current() == "" {
		return nil // the new one is not on the bus yet
	}
	if err := b.subscribe(ctx); err != nil {
		return unanswered(err)
	}
	id, err := strconv.ParseUint(path.Base(string(job)), 10, 32)
	if err == nil {
		err = b.manager(ctx, "GetJob", uint32(id)).Err
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

package unitstest

import (
	"crypto/rand"
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Unit is one unit of the fake systemd. Each method emits the signals of systemd 257
// for it, as measured, and returns when they are on the bus.
type Unit struct {
	systemd *Systemd
	name    string

	// guarded by the fake's lock
	now  Properties
	job  string // the result of jobs; "" leaves them running
	pid  uint32
	held Job

	control map[string]any // of SetUnitProperties
}

// Set changes and announces properties, several changes back to back.
func (u *Unit) Set(changes ...Properties) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	for _, p := range changes {
		u.set(p)
	}
}

// SetSilently changes properties without a signal.
func (u *Unit) SetSilently(p Properties) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	maps.Copy(u.now, p)
}

// Remove removes a property, which older versions of systemd lack.
func (u *Unit) Remove(property string) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	delete(u.now, property)
}

// Invalidate changes properties and announces the change without the new values.
func (u *Unit) Invalidate(p Properties) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	maps.Copy(u.now, p)
	for name := range p {
		iface := typeIface(u.name)
		if ofUnit[name] {
			iface = managerName + ".Unit"
		}
		u.systemd.emit(changed(u.name, iface, map[string]dbus.Variant{}, name))
	}
}

// SetService changes and announces properties of the service's own interface,
// without the Unit signal that otherwise follows.
func (u *Unit) SetService(p Properties) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	u.now = u.now.with(p)
	u.systemd.emit(changes(u.name, u.now)[0])
}

// Emit sends a PropertiesChanged with the given body, which may be invalid.
func (u *Unit) Emit(body ...any) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	u.systemd.emit(signal{unitPath(u.name), propertiesIface + ".PropertiesChanged", body})
}

// Jobs sets the result of the unit's jobs: "done", "failed", "canceled", …; with ""
// they run until EndJob.
func (u *Unit) Jobs(result string) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	u.job = result
}

// Queue gives the unit a job of that type, which stays; "" removes it.
func (u *Unit) Queue(kind string) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	job := noJob
	if kind != "" {
		job = u.systemd.newJob()
		u.systemd.queued[job.Path] = kind
	}
	u.set(Properties{"Job": job})
}

// HoldBack is an automatic restart of that number by systemd 252, which has no
// growing delays: RestartSec= is over, and the first ExecStartPre= has just begun.
func (u *Unit) HoldBack(restart uint32) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	delete(u.now, "RestartUSecNext")
	delete(u.now, "RestartSteps")
	u.set(Properties{
		"Job": u.systemd.newJob(), "NRestarts": restart, "StatusText": "",
		"InactiveExitTimestamp": now(), "InactiveExitTimestampMonotonic": monotonic(),
		"ActiveState": "activating", "SubState": "start-pre",
	})
}

// StartAgain is an explicit start that joins the unit's running job.
func (u *Unit) StartAgain() {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	changed := []any{managerName + ".Job", map[string]dbus.Variant{"State": dbus.MakeVariant("running")}, []string{}}
	u.systemd.emit(signal{u.now["Job"].(Job).Path, propertiesIface + ".PropertiesChanged", changed})
}

// EndJob ends the job that runs since Jobs("").
func (u *Unit) EndJob(result string) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	held := u.held
	u.held = Job{}
	u.endJob(held, result)
}

// Start is an explicit start, of a service that sends READY=1 with that status.
func (u *Unit) Start(status string) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	job := u.systemd.newJob()
	u.set(Properties{"NRestarts": uint32(0), "Job": job})
	u.start(job, status)
}

// Exit is an exit of the main process with that status. systemd then waits for delay
// before it restarts the unit.
func (u *Unit) Exit(status int32, delay time.Duration) { u.end(1, status, "exit-code", delay) }

// Kill is a death of the main process by that signal. systemd then waits for delay
// before it restarts the unit.
func (u *Unit) Kill(sig syscall.Signal, delay time.Duration) { u.end(2, int32(sig), "signal", delay) }

func (u *Unit) end(code, status int32, result string, delay time.Duration) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	u.set(Properties{
		"ActiveState": "failed", "SubState": "failed-before-auto-restart", "StateChangeTimestamp": now(),
		"MainPID": uint32(0), "Result": result, "ExecMainCode": code, "ExecMainStatus": status,
		"ExecMainExitTimestamp": now(),
	})
	maps.Copy(u.now, Properties{"RestartUSecNext": uint64(delay.Microseconds())})
	u.set(Properties{
		"ActiveState": "activating", "SubState": "auto-restart",
		"StateChangeTimestamp": now(), "InactiveExitTimestamp": now(),
	})
}

// AutoRestart ends the wait: systemd restarts the unit. It counts the restart
// and increases the next delay before the unit leaves the state auto-restart.
func (u *Unit) AutoRestart(status string) {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	u.start(u.leaveWait(), status)
}

// HitStartLimit ends the wait: systemd refuses the restart, and counts it.
func (u *Unit) HitStartLimit() {
	u.systemd.mu.Lock()
	defer u.systemd.mu.Unlock()
	job := u.leaveWait()
	u.set(Properties{"ActiveState": "failed", "SubState": "failed", "StateChangeTimestamp": now()})
	u.endJob(job, "failed")
}

func (u *Unit) leaveWait() Job {
	job := u.systemd.newJob()
	delay, _ := u.now["RestartUSecNext"].(uint64)
	maps.Copy(u.now, Properties{"RestartUSecNext": 2 * delay})
	u.set(Properties{"NRestarts": u.now["NRestarts"].(uint32) + 1, "Job": job})
	u.set(Properties{"SubState": "auto-restart-queued", "StateChangeTimestamp": now()})
	return job
}

func (u *Unit) start(job Job, status string) {
	u.pid++
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	u.set(Properties{
		"MainPID": 1000 + u.pid, "InvocationID": id, "Result": "success", "StatusText": "", "StatusErrno": int32(0),
		"ExecMainCode": int32(0), "ExecMainStatus": int32(0), "ExecMainExitTimestamp": uint64(0),
	})
	u.set(Properties{"ActiveState": "activating", "SubState": "start", "StateChangeTimestamp": now()})
	u.set(Properties{"ActiveState": "active", "SubState": "running", "StateChangeTimestamp": now()})
	maps.Copy(u.now, Properties{"StatusText": status})
	u.endJob(job, "done")
}

func (u *Unit) stop(job Job) {
	u.set(Properties{"Job": job})
	u.set(Properties{"ActiveState": "deactivating", "SubState": "stop-sigterm", "StateChangeTimestamp": now()})
	u.set(Properties{
		"ActiveState": "inactive", "SubState": "dead", "StateChangeTimestamp": now(), "MainPID": uint32(0),
		"Result": "success", "ExecMainCode": int32(2), "ExecMainStatus": int32(syscall.SIGTERM),
		"ExecMainExitTimestamp": now(),
	})
	u.endJob(job, "done")
}

// runJob runs the job of StartUnit, StopUnit or RestartUnit.
func (u *Unit) runJob(method string, job Job) {
	switch {
	case u.job == "":
		u.held = job
		u.set(Properties{"Job": job})
	case u.job != "done":
		u.set(Properties{"Job": job})
		u.endJob(job, u.job)
	case method == "StopUnit":
		u.stop(job)
	default:
		u.set(Properties{"NRestarts": uint32(0), "Job": job})
		u.start(job, "started")
	}
}

// endJob announces the end of the job before the unit's Job property changes.
func (u *Unit) endJob(job Job, result string) {
	u.systemd.emit(signal{managerPath, managerIface + ".JobRemoved", []any{job.ID, job.Path, u.name, result}})
	u.set(Properties{"Job": noJob})
}

func (u *Unit) resetFailed() {
	p := Properties{"NRestarts": uint32(0), "Result": "success"}
	if u.now["SubState"] == "failed" {
		p = p.with(Properties{"ActiveState": "inactive", "SubState": "dead", "StateChangeTimestamp": now()})
	}
	u.set(p)
}

func (u *Unit) set(p Properties) {
	maps.Copy(u.now, p)
	for _, s := range changes(u.name, u.now) {
		u.systemd.emit(s)
	}
}

func (m *Systemd) newJob() Job {
	m.lastJob++
	return Job{m.lastJob, dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", m.lastJob))}
}

func now() uint64 { return uint64(time.Now().UnixMicro()) }

func monotonic() uint64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail
	return uint64(now.Nano() / 1000)
}

package runner

import (
	"errors"

	"codex-proxy/runner/api/wire"
)

// ErrSystemd means that systemd does not answer, or refuses a call that the service needs.
var ErrSystemd = errors.New("systemd does not answer, so no command can start (systemctl status dbus)")

// ErrDisk means that the disk of the service has no room for the files of a command.
var ErrDisk = errors.New("the disk of /var/lib/codex-runner is full, so no command starts until there is room " +
	"(codex-runner prune --all --older-than 24h)")

// LeastFree is the room on the disk of the service, in bytes, without which no command starts: its log and the record
// of its end could not be written.
const LeastFree = 16 << 20

// full reports whether the disk has less room than that.
func (r *Runner) full() bool {
	disk, err := r.Disk()
	return err == nil && disk.Free < r.LeastFree
}

// roomy returns an error if it has.
func (r *Runner) roomy() error {
	if r.full() {
		return refuse(wire.Unavailable, "remove files there, for instance with codex-runner prune, and try again",
			"the disk of /var/lib/codex-runner is full")
	}
	return nil
}

// Ready returns why no command can start, or nil.
func (r *Runner) Ready() error {
	if r.full() {
		return ErrDisk
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.fault
}

// systemdAnswers records whether systemd has answered.
func (r *Runner) systemdAnswers(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fault error
	if !yes {
		fault = ErrSystemd
	}
	if (fault == nil) != (r.state.fault == nil) {
		r.state.fault = fault
		r.state.change(r.wake)
	}
}

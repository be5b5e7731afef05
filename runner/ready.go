package runner

import "errors"

// ErrSystemd means that systemd does not answer, or refuses what the service needs.
var ErrSystemd = errors.New("systemd does not answer, so no command can start (systemctl status dbus)")

// Ready returns why no command can start, or nil.
func (r *Runner) Ready() error {
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

package runner

import (
	"errors"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/disk"
)

// ErrDisk means that the disk of the service has no room for the files of a command.
var ErrDisk = errors.New("the disk of /var/lib/codex-runner is full, so no command starts until there is room " +
	"(codex-runner prune --all --older-than 24h)")

// LeastFree is the room on the disk of the service, in bytes, without which no command starts: its log and the record
// of its end could not be written.
const LeastFree = 16 << 20

// full reports whether the disk has less room than that.
func (r *Runner) full() bool {
	space, err := disk.SpaceOf(r.StateDir)
	return err == nil && space.Free < r.LeastFree
}

// room returns an error to a request if the disk has none.
func (r *Runner) room() error {
	if r.full() {
		return wire.Refuse(wire.Unavailable, "remove files there, for instance with codex-runner prune, and try again",
			"the disk of /var/lib/codex-runner is full")
	}
	return nil
}

// Ready returns why no command can start, or nil.
func (r *Runner) Ready() error {
	if r.full() {
		return ErrDisk
	}
	return r.systemd.Fault()
}

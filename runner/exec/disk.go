package exec

import (
	"context"

	"codex-proxy/runner/disk"
	"codex-proxy/runner/session"
)

// watchDisk ends the command when the files take more than Spec.Disk, until ctx ends.
func (r *run) watchDisk(ctx context.Context, files disk.Files) {
	if disk.Watch(ctx, files, r.spec.Disk, r.takes) {
		r.end(session.DiskFull, "")
	}
}

// takes records how many bytes the files of the session take.
func (r *run) takes(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disk = bytes
}

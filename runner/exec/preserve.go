package exec

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
)

// preserveAfter is how long a command has to run before the workspace that was made for it is written to the disk: the
// kernel does so by itself within half a minute, and a short command needs no more than its result.
const preserveAfter = time.Second

// preserve has the files of a workspace that was made for this command written to the disk, and notes that: after a loss
// of power the session goes on in that workspace, and else in a new one. end waits for a write that has begun.
func (s *Shim) preserve(launch *Launch) (end func()) {
	tenant := s.Files[paths.TenantFile]
	if launch.Spec.Workspace == nil || tenant == nil {
		return func() {}
	}
	return background(func(ctx context.Context) {
		select {
		case <-time.After(preserveAfter):
		case <-ctx.Done():
			return
		}
		if err := synced(launch.Dir); err == nil {
			_, _ = tenant.WriteString(strings.TrimPrefix(paths.OnDisk, paths.Settled)) // else it is made anew
		}
	})
}

// synced returns when all files of the file system of a directory are on the disk.
func synced(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

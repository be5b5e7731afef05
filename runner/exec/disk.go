package exec

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"codex-proxy/runner/session"
)

// The time between two walks is at least diskPause, and so long that walking takes at most a share of it.
const (
	diskPause = time.Second
	diskShare = 20
)

// watchDisk ends the command when the files in dirs take more than Spec.Disk. It walks them again and again until ctx
// ends. It is a guard against mistakes: a command that wants to can hide files from it, as in a directory that it
// cannot read itself.
func (r *run) watchDisk(ctx context.Context, dirs []string) {
	for {
		began := time.Now()
		if taken(ctx, dirs, r.spec.Disk) > r.spec.Disk {
			r.end(session.DiskFull, "")
			return
		}
		pause := time.NewTimer(max(diskPause, diskShare*time.Since(began)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// taken returns how many bytes the files in dirs take on the disk, each file once. It stops above enough.
func taken(ctx context.Context, dirs []string, enough int64) int64 {
	type file struct{ dev, ino uint64 }
	var size int64
	several := map[file]bool{} // those with several names
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
			if size > enough || ctx.Err() != nil {
				return fs.SkipAll
			}
			if err != nil {
				return nil // it may be gone since its directory was read
			}
			info, err := entry.Info()
			if err != nil {
				return nil
			}
			stat := info.Sys().(*syscall.Stat_t) // as package os documents it
			if id := (file{stat.Dev, stat.Ino}); stat.Nlink > 1 && !entry.IsDir() {
				if several[id] {
					return nil
				}
				several[id] = true
			}
			size += stat.Blocks * 512 // stat(2)
			return nil
		})
	}
	return size
}

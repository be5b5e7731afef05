// Package disk measures how much of the disk files take, and watches that.
package disk

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// The time between two walks of Watch is at least pause, and so long that walking takes at most a share of it.
const (
	pause = time.Second
	share = 20
)

// Watch returns true when the files in dirs take more than limit bytes, or false when ctx ends. It walks them again and
// again, and calls seen after each whole walk. It is a guard against mistakes: a process can hide files from it, as in a
// directory that it cannot read itself.
func Watch(ctx context.Context, dirs []string, limit int64, seen func(bytes int64)) bool {
	for {
		began := time.Now()
		bytes := Taken(ctx, dirs, limit)
		if ctx.Err() == nil {
			seen(bytes)
		}
		if bytes > limit {
			return true
		}
		pause := time.NewTimer(max(pause, share*time.Since(began)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return false
		case <-pause.C:
		}
	}
}

// Taken returns how many bytes the files in dirs take on the disk, each file once. It stops above enough, or when ctx
// ends.
func Taken(ctx context.Context, dirs []string, enough int64) int64 {
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

// Package disk measures how much of the disk files take, and watches that.
package disk

import (
	"context"
	"time"
)

// The time between two walks of Watch is at least pause, and so long that walking takes at most a share of it.
const (
	pause = time.Second
	share = 20
)

// Files are files to be measured.
type Files struct {
	Dirs []string // the directories that they are in
	// Merged are directories that are mounted over some of these (overlayfs): files without a name that are open there
	// count, and no other ones.
	Merged []string
}

// Watch returns true when the files, and those without a name that processes of this user have open on the same file
// systems, take more than limit bytes, or false when ctx ends. It measures again and again, and calls seen after
// each whole measurement. It runs as the owner of the files, so it misses files that this user can hide from itself: an
// unnamed file of a process that is not dumpable (prctl(2)), one that is only mapped, or one in the queue of a socket.
func Watch(ctx context.Context, files Files, limit int64, seen func(bytes int64)) bool {
	for {
		began := time.Now()
		w := newWalk(ctx, limit)
		w.trees(files.Dirs)
		w.mounts(files.Merged)
		w.unnamed("/proc")
		if ctx.Err() == nil {
			seen(w.size)
		}
		if w.size > limit {
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

// Taken returns how many bytes the files in dirs take on the disk, each file once and with at least a block: an empty
// one takes an inode. It stops above enough, or when ctx ends. A directory below maxDepth others takes more than
// enough.
func Taken(ctx context.Context, dirs []string, enough int64) int64 {
	w := newWalk(ctx, enough)
	w.trees(dirs)
	return w.size
}

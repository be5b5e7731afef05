package follow

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"time"

	"codex-proxy/internal/statefile"
)

const (
	// fileName is the name of the file in the state directory of the service.
	fileName = "codexes.json"
	// maxFile bounds the file, in bytes.
	maxFile = 64 << 10
	// keepEvery is the longest time for which a turn is only in memory.
	keepEvery = 10 * time.Second
)

// Keeper keeps the judgement of the codex in use in a file, for the next start of the service.
type Keeper struct {
	follower *Follower
	path     string      // empty: there is no file
	serves   func() bool // this process, and not its predecessor or its successor
	logger   *slog.Logger

	// The rest is for the goroutine of Run.
	written Saved
	failed  bool // the last attempt to write
}

// NewKeeper returns a keeper of a file in dir; empty: there is no such directory. serves reports whether this process
// serves, and not its predecessor or its successor.
func NewKeeper(f *Follower, dir string, serves func() bool) *Keeper {
	k := &Keeper{follower: f, serves: serves, logger: f.Logger}
	if dir != "" {
		k.path = filepath.Join(dir, fileName)
	}
	return k
}

// Load has the follower go on with the file, before its Run. After a reload the predecessor has handed over more.
func (k *Keeper) Load() {
	if k.path == "" {
		return
	}
	var saved Saved
	err := statefile.Read(k.path, "turns on codex", maxFile, &saved)
	switch {
	case err == nil:
		k.follower.Restore(saved)
		k.written = saved
	case !errors.Is(err, fs.ErrNotExist):
		k.logger.Warn("the turns on each codex are forgotten; they are counted anew", "path", k.path, "error", err)
	}
}

// Run writes the file until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.write()
		case <-ctx.Done():
			k.write()
			return nil
		}
	}
}

func (k *Keeper) write() {
	if k.path == "" || !k.serves() {
		return
	}
	saved := k.follower.Save()
	if reflect.DeepEqual(saved, k.written) {
		return
	}
	err := statefile.Write(k.path, saved)
	if err != nil && !k.failed {
		k.logger.Warn("cannot write the turns on each codex; a restart forgets them", "path", k.path, "error", err)
	}
	if k.failed = err != nil; !k.failed {
		k.written = saved
	}
}

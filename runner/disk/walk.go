package disk

import (
	"context"
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// block is the least that a file counts, in bytes.
	block = 4 << 10
	// maxDepth bounds the open directories. It is more than a path can name (PATH_MAX is 4096).
	maxDepth = 2100
	// batch is how many names of a directory are read at a time.
	batch = 256
)

// file names a file on this host.
type file struct{ dev, ino uint64 }

// walk counts files. A process may change them meanwhile: each is looked up in an open directory, and no link is
// followed except a top.
type walk struct {
	ctx     context.Context //nolint:containedctx // a walk is one call
	uid     int             // of this process
	enough  int64
	size    int64
	devices map[uint64]bool // of the tops
	several map[file]bool   // counted files that may be found again
}

func newWalk(ctx context.Context, enough int64) *walk {
	return &walk{ctx: ctx, uid: os.Geteuid(), enough: enough, devices: map[uint64]bool{}, several: map[file]bool{}}
}

// over reports whether the walk may end.
func (w *walk) over() bool { return w.size > w.enough || w.ctx.Err() != nil }

func (w *walk) add(st *unix.Stat_t) { w.size += max(st.Blocks*512, block) } // stat(2)

// trees counts the files in dirs. A top may be a link, as the state directory of a dynamic user is.
func (w *walk) trees(dirs []string) {
	for _, dir := range dirs {
		top, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue // it does not exist
		}
		var st unix.Stat_t
		if unix.Fstat(int(top.Fd()), &st) == nil {
			w.devices[st.Dev] = true
			w.add(&st)
			w.dir(top, 1)
		}
		_ = top.Close()
	}
}

// mounts notes the file systems of dirs.
func (w *walk) mounts(dirs []string) {
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			w.devices[st.Dev] = true
		}
	}
}

// dir counts the entries of a directory.
func (w *walk) dir(d *os.File, depth int) {
	for !w.over() {
		names, err := d.Readdirnames(batch)
		for _, name := range names {
			if w.over() {
				return
			}
			w.entry(d, name, depth)
		}
		if err != nil {
			return // its end, or it was removed
		}
	}
}

func (w *walk) entry(d *os.File, name string, depth int) {
	var st unix.Stat_t
	if unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return // it may be gone since its directory was read
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if st.Nlink == 1 || w.first(&st) {
			w.add(&st)
		}
		return
	}
	w.add(&st)
	if depth == maxDepth {
		w.size = max(w.size, min(w.enough, math.MaxInt64-1)+1)
		return
	}
	w.below(d, name, &st, depth+1)
}

// first reports whether a file is found for the first time.
func (w *walk) first(st *unix.Stat_t) bool {
	id := file{st.Dev, st.Ino}
	if w.several[id] {
		return false
	}
	w.several[id] = true
	return true
}

// below counts the entries of a directory of d. If its owner has no right to read it, below grants it during the count.
func (w *walk) below(d *os.File, name string, st *unix.Stat_t, depth int) {
	const rights = 0o500
	mode := st.Mode & 0o7777
	closed := mode&rights != rights && int(st.Uid) == w.uid
	if closed && unix.Fchmodat(int(d.Fd()), name, mode|rights, 0) != nil {
		return
	}
	fd, err := openat(d, name)
	if err != nil {
		return
	}
	sub := os.NewFile(uintptr(fd), name)
	defer sub.Close()
	if closed {
		defer restore(fd, mode|rights, mode)
	}
	w.dir(sub, depth)
}

func openat(d *os.File, name string) (int, error) {
	for {
		fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// restore sets the mode of a directory, unless another process has changed it meanwhile.
func restore(fd int, is, mode uint32) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&0o7777 == is {
		_ = unix.Fchmod(fd, mode)
	}
}

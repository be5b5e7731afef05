package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// maxDepth bounds the directories inside each other.
	maxDepth = 500
	// batch is how many names of a directory are read at a time.
	batch = 256
)

// Files copies each file of the snapshot into Target, as the owner's: by a reference where the file system has them
// (FICLONE), else byte by byte. The copy takes no more of the disk than the snapshot, which foreign code has made:
// holes and hard links stay what they are.
func (c Copy) Files() error { return c.files(runtime.GOMAXPROCS(0)) }

// files has so many workers at most.
func (c Copy) files(workers int) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(workers)
	all := &copying{owner: c.Owner, workers: group, linked: map[uint64]string{}}
	group.Go(func() error { return all.tree(ctx, c.Snapshot, c.Target, 0) })
	return group.Wait()
}

// copying is one call of Files.
type copying struct {
	owner   Owner
	workers *errgroup.Group
	whole   atomic.Bool // the file system has no references, so the content is copied

	mu     sync.Mutex
	linked map[uint64]string // the copies of files with several names, by inode: a snapshot is on one file system
}

// tree copies the content of a directory, and then the directories in it: each by a worker of its own if one is free.
func (c *copying) tree(ctx context.Context, from, to string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%.200q has more than %d directories inside each other", from, maxDepth)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	below, err := c.dir(from, to)
	if err != nil {
		return err
	}
	for _, name := range below {
		work := func() error { return c.tree(ctx, filepath.Join(from, name), filepath.Join(to, name), depth+1) }
		if c.workers.TryGo(work) {
			continue
		}
		if err := work(); err != nil {
			return err
		}
	}
	return nil
}

// dir copies the entries of a directory, and returns the directories among them, whose copies are empty.
func (c *copying) dir(from, to string) (below []string, err error) {
	d := pair{copying: c}
	if d.from, err = openDir(from); err != nil {
		return nil, err
	}
	defer d.from.Close()
	if d.to, err = openDir(to); err != nil {
		return nil, err
	}
	defer d.to.Close()
	for {
		entries, err := d.from.ReadDir(batch)
		for _, entry := range entries {
			if entry.IsDir() {
				below = append(below, entry.Name())
			}
			if err := d.entry(entry.Name(), entry.Type()); err != nil {
				return nil, fmt.Errorf("cannot copy %.200q: %w", filepath.Join(from, entry.Name()), err)
			}
		}
		if errors.Is(err, io.EOF) {
			return below, c.finishDir(int(d.from.Fd()), int(d.to.Fd()))
		}
		if err != nil {
			return nil, err
		}
	}
}

func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// pair is an open directory and its copy.
type pair struct {
	*copying

	from, to *os.File
}

func (p pair) entry(name string, kind fs.FileMode) error {
	to := int(p.to.Fd())
	switch {
	case kind.IsDir():
		return os.NewSyscallError("mkdir", unix.Mkdirat(to, name, 0o700))
	case kind.IsRegular():
		return p.file(name)
	case kind != fs.ModeSymlink:
		return errors.New("it is no file, directory or link")
	}
	link := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(p.from.Fd()), name, link)
	if err == nil {
		err = unix.Symlinkat(string(link[:n]), to, name)
	}
	if err == nil {
		err = unix.Fchownat(to, name, p.owner.UID, p.owner.GID, unix.AT_SYMLINK_NOFOLLOW)
	}
	return os.NewSyscallError("symlink", err)
}

// file copies a file. It works on descriptors, as an os.File costs each file some system calls more.
func (p pair) file(name string) error {
	from, err := openat(p.from, name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(from) }()
	st, err := stat(from)
	if err != nil {
		return err
	}
	to, err := p.create(name, st)
	if to < 0 || err != nil {
		return err
	}
	err = p.content(from, to, st)
	if err == nil {
		err = p.finish(st, to, int(p.to.Fd()), name)
	}
	return errors.Join(err, os.NewSyscallError("close", unix.Close(to)))
}

// create makes the copy of a file. It returns -1 if that is a further name of one that is there.
func (p pair) create(name string, st *unix.Stat_t) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	if st.Nlink < 2 {
		return openat(p.to, name, flags, 0o600)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first, ok := p.linked[st.Ino]; ok {
		return -1, os.NewSyscallError("link", unix.Linkat(unix.AT_FDCWD, first, int(p.to.Fd()), name, 0))
	}
	p.linked[st.Ino] = filepath.Join(p.to.Name(), name)
	return openat(p.to, name, flags, 0o600)
}

func openat(dir *os.File, name string, flags int, mode uint32) (int, error) {
	fd, err := ignoringEINTR(func() (int, error) {
		return unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	})
	return fd, os.NewSyscallError("open", err)
}

// content copies the bytes of a file. Nothing changes a snapshot, so it has as many as st says.
func (c *copying) content(from, to int, st *unix.Stat_t) error {
	if !c.whole.Load() {
		err := unix.IoctlFileClone(to, from)
		if err == nil {
			return nil
		}
		c.whole.Store(errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV))
	}
	if st.Blocks*512 >= st.Size { // as stat(2) counts blocks: it has no holes
		return copyBytes(from, to, 0, st.Size)
	}
	for at := int64(0); ; {
		begin, err := unix.Seek(from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // the rest is a hole
			return os.NewSyscallError("truncate", unix.Ftruncate(to, st.Size))
		}
		if err == nil {
			at, err = unix.Seek(from, begin, unix.SEEK_HOLE)
		}
		if err != nil {
			return os.NewSyscallError("seek", err)
		}
		if err := copyBytes(from, to, begin, at); err != nil {
			return err
		}
	}
}

// copyBytes copies the bytes of a file from begin to end.
func copyBytes(from, to int, begin, end int64) error {
	for out := begin; begin < end; {
		const most = 1 << 30
		n, err := unix.CopyFileRange(from, &begin, to, &out, int(min(end-begin, most)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
			return stream(from, to, begin, end) // copy_file_range(2): between two file systems
		case err != nil:
			return os.NewSyscallError("copy_file_range", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// stream copies the bytes of a file from begin to end through this process.
func stream(from, to int, begin, end int64) error {
	bytes := make([]byte, 128<<10)
	for begin < end {
		part := bytes[:min(end-begin, int64(len(bytes)))]
		n, err := ignoringEINTR(func() (int, error) { return unix.Pread(from, part, begin) })
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		written, err := ignoringEINTR(func() (int, error) { return unix.Pwrite(to, part[:n], begin) })
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		begin += int64(written)
	}
	return nil
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func stat(fd int) (*unix.Stat_t, error) {
	var st unix.Stat_t
	return &st, os.NewSyscallError("stat", unix.Fstat(fd, &st))
}

// finishDir is finish for an open directory.
func (c *copying) finishDir(from, to int) error {
	st, err := stat(from)
	if err != nil {
		return err
	}
	return c.finish(st, to, to, ".")
}

// finish gives a copy, which has that name in dir, the owner, the mode and the times of the original. Programs that
// build compare times.
func (c *copying) finish(st *unix.Stat_t, to, dir int, name string) error {
	err := unix.Fchown(to, c.owner.UID, c.owner.GID)
	if err == nil {
		err = unix.Fchmod(to, st.Mode&0o777)
	}
	if err == nil {
		err = unix.UtimesNanoAt(dir, name, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return fmt.Errorf("cannot set its owner, mode and times: %w", err)
	}
	return nil
}

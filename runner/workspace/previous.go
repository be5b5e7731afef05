package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// copyFrom copies those files of another tree that are wanted and as the record has them. Anything may lie in that
// tree, and other processes may write to its files meanwhile: the sum of the copied bytes decides.
func (s *sweep) copyFrom(previous *os.File, top *os.Root) error {
	for at, want := range s.wanted {
		f, ok := s.record[at]
		if !ok || f.entry != want || f.mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		copied, err := copyFile(previous, top, f)
		if err != nil {
			return err
		}
		if copied {
			s.kept[at] = f
		}
	}
	return nil
}

// copyFile reports whether it has made the file in top. An error is one of top.
func copyFile(previous *os.File, top *os.Root, f file) (bool, error) {
	from := openPlain(previous, f)
	if from == nil {
		return false, nil
	}
	defer from.Close()
	if dir := path.Dir(f.path); dir != "." {
		if err := top.MkdirAll(dir, dirMode); err != nil {
			return false, err
		}
	}
	mode := fs.FileMode(f.mode & 0o777)
	to, err := top.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return false, err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, h), io.LimitReader(from, f.size+1))
	same := [sha256.Size]byte(h.Sum(nil)) == f.sum
	err = errors.Join(err, to.Close())
	if err == nil && same {
		err = errors.Join(top.Chmod(f.path, mode), top.Chtimes(f.path, time.Time{}, time.Unix(0, f.mtime)))
	}
	if err != nil || !same {
		return false, errors.Join(err, top.Remove(f.path))
	}
	return true, nil
}

// openPlain opens a file of the recorded size, or returns nil. It follows no link (openat2(2)).
func openPlain(previous *os.File, f file) *os.File {
	fd, err := unix.Openat2(int(previous.Fd()), f.path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, // a FIFO would hold us up
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), fmt.Sprintf("the workspace before/%s", f.path))
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != f.size {
		_ = file.Close()
		return nil
	}
	return file
}

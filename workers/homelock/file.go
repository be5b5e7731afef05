package homelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// TakeFile locks a file of any directory, and makes it if it does not exist. Users that share the file need no right to
// write to it: it is readable for all, and so it has no name of its holder. TakeFile waits as Take does.
func TakeFile(ctx context.Context, path string) (*Lock, error) {
	file, err := openFile(path)
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot lock: %w: name a file that this user can open", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock: %w", err)
	}
	if err := await(ctx, file); err != nil {
		if err := errors.Join(ignoreBusy(err), file.Close()); err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		return nil, &HeldError{File: path}
	}
	return &Lock{file}, nil
}

// openFile reads a file that is there, and follows no link at the end of the path.
func openFile(path string) (*os.File, error) {
	const flags = unix.O_NONBLOCK | unix.O_NOFOLLOW
	file, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = makeFile(path, flags)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// makeFile makes the file, or opens the one that another process has made meanwhile.
func makeFile(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDONLY|flags, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o644); err != nil { // the umask does not count
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// MakeFile makes the file of a lock in the place of a user who may not: a file that all may read. It follows no link,
// because the path may lead through directories of users that are not trusted. If the file exists, it does nothing. The
// path begins at the directory root.
func MakeFile(root, path string) error {
	start, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot make the lock %s: %w", path, err)
	}
	defer func() { _ = unix.Close(start) }()
	dir, err := unix.Openat2(start, "."+filepath.Dir(path), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fmt.Errorf("cannot make the lock %s: %w", path, err)
	}
	defer func() { _ = unix.Close(dir) }()
	const flags = unix.O_RDONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	file, err := unix.Openat(dir, filepath.Base(path), flags, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot make the lock %s: %w", path, err)
	}
	return errors.Join(unix.Fchmod(file, 0o644), unix.Close(file))
}

package holders

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the name of a lock in the text of a Holder.
func lockName(path string) string { return "the lock " + path }

// lockOf identifies the file of a lock, and reports whether a process holds it. A file that does not exist is free.
// The attempt shares the lock for a moment, so that two attempts do not exclude each other.
func lockOf(root, path string) (id file, taken bool, err error) {
	if path == "" {
		return file{}, false, nil
	}
	id, taken, err = tryLock(root + path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return file{}, false, nil
	}
	if err != nil {
		return file{}, false, fmt.Errorf("cannot look at the lock %s: %w", path, err)
	}
	return id, taken, nil
}

// tryLock opens the file only after it has seen that it is one: a device or a pipe may act when it is opened.
func tryLock(path string) (id file, taken bool, err error) {
	handle, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return file{}, false, err
	}
	defer func() { _ = unix.Close(handle) }()
	id, mode, err := identify(handle, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return file{}, false, err
	}
	if mode&unix.S_IFMT != unix.S_IFREG {
		return file{}, false, errors.New("it is not a file")
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", handle), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return file{}, false, err
	}
	defer func() { _ = unix.Close(fd) }()
	err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return id, true, nil
	}
	return id, false, err
}

// identify is statx(2), which waits for no file server.
func identify(dir int, name string, flags int) (file, uint16, error) {
	const kept = unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	var st unix.Statx_t
	if err := unix.Statx(dir, name, flags|kept, unix.STATX_TYPE|unix.STATX_INO, &st); err != nil {
		return file{}, 0, err
	}
	return file{uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), st.Ino}, st.Mode, nil
}

// locksFile reports whether the text of /proc/PID/fdinfo/FD has a lock of flock(2). The kernel lists it for every
// process that has inherited the descriptor, while /proc/locks names only the process that took the lock, which may
// have ended (proc_pid_fdinfo(5), show_fd_locks in fs/locks.c).
func locksFile(fdinfo string) bool {
	for line := range strings.Lines(fdinfo) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "lock:" && fields[2] == "FLOCK" {
			return true
		}
	}
	return false
}

// writes reports whether the text of /proc/PID/fdinfo/FD describes a descriptor that is open for writing: flags is
// octal, and its last two bits are the access mode (open(2)).
func writes(fdinfo string) bool {
	for line := range strings.Lines(fdinfo) {
		if flags, found := strings.CutPrefix(line, "flags:"); found {
			var n uint64
			_, err := fmt.Sscanf(strings.TrimSpace(flags), "%o", &n)
			return err == nil && n&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}

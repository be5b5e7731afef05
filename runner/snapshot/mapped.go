package snapshot

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// mapped returns a mount without a name of a directory, in which the files of root belong to the owner of the user
// namespace.
func mapped(dir string, namespace *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, unsupported("open_tree", err)
	}
	mount := os.NewFile(uintptr(fd), dir)
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set:  unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(namespace.Fd()),
	})
	if err != nil {
		return nil, errors.Join(unsupported("mount_setattr", err), mount.Close())
	}
	return mount, nil
}

// userNamespace returns a user namespace in which root is owner. The kernel makes one for a new process only, as this
// one has threads (unshare(2)); that process is stopped before its first instruction (PTRACE_TRACEME), and killed.
func userNamespace(owner Owner) (*os.File, error) {
	runtime.LockOSThread() // ptrace(2) is of a thread
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"user-namespace"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Ptrace: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: owner.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: owner.GID, Size: 1}},
	}})
	if err != nil {
		return nil, unsupported("clone", err)
	}
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	killErr := syscall.Kill(pid, syscall.SIGKILL)
	for {
		if _, waitErr := syscall.Wait4(pid, nil, syscall.WALL, nil); !errors.Is(waitErr, syscall.EINTR) {
			break
		}
	}
	if err = errors.Join(err, killErr); err != nil {
		return nil, fmt.Errorf("cannot make a user namespace: %w", err)
	}
	return file, nil
}

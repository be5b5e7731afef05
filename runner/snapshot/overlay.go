// Package snapshot gives sessions a writable copy of a directory that none of them can change: an overlay whose lower
// directory is mapped to the user of the session (mount_setattr(2), MOUNT_ATTR_IDMAP) where the kernel and the file
// system have that, else a copy. All files of a snapshot belong to root.
//
// It is for root, outside of any sandbox: units see the mounts by a bind.
package snapshot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsupported reports that the kernel or the file system has no overlay with a mapped lower directory.
var ErrUnsupported = errors.New("this kernel or file system cannot map the owner of a directory")

// Owner is the user and the group of a session.
type Owner struct{ UID, GID int }

// Copy is a writable copy of a snapshot.
type Copy struct {
	Snapshot string // a directory that root alone can enter
	// Changes is a directory of the session: it has the files that differ from the snapshot, and outlives the mount.
	Changes string
	// Work belongs to the kernel as long as there is a mount (overlayfs, "workdir"). It is on the file system of
	// Changes.
	Work   string
	Target string // where the session sees the copy
	Owner  Owner
}

// Mount makes copies of one owner at their targets, with the changes of earlier mounts: all of them, or none. Its error
// is ErrUnsupported if only a copy of each file can help.
func Mount(copies ...Copy) error {
	namespace, err := userNamespace(copies[0].Owner)
	if err != nil {
		return err
	}
	defer namespace.Close()
	for i, c := range copies {
		if err := c.mount(namespace); err != nil {
			for _, mounted := range copies[:i] {
				err = errors.Join(err, Unmount(mounted.Target))
			}
			return err
		}
	}
	return nil
}

// mount makes the copy, whose owner is root in the user namespace.
func (c Copy) mount(namespace *os.File) error {
	for _, name := range []string{c.Snapshot, c.Changes, c.Work, c.Target} {
		if strings.ContainsAny(name, `,:\`) {
			return fmt.Errorf("%q cannot be mounted: its name has a comma, a colon or a backslash", name)
		}
	}
	if err := errors.Join(os.MkdirAll(c.Work, 0o700), os.MkdirAll(c.Target, 0o700)); err != nil {
		return err
	}
	lower, err := mapped(c.Snapshot, namespace)
	if err != nil {
		return err
	}
	defer lower.Close()
	// The lower directory is named by its descriptor, as it has no other name. A rename of a directory needs
	// redirect_dir; without it programs get EXDEV.
	options := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s,redirect_dir=on,metacopy=off,index=off",
		lower.Fd(), c.Changes, c.Work)
	if err := unix.Mount("codex-session", c.Target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return unsupported("mount", err)
	}
	return nil
}

// Unmount removes the mount at target, also one that a process holds, if there is one. The directory stays.
func Unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // umount(2): no mount, no directory
		return nil
	}
	return &os.PathError{Op: "unmount", Path: target, Err: err}
}

// unsupported tells errors of the kernel's and file system's abilities from others.
func unsupported(call string, err error) error {
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENODEV),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPERM), errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%w (%s: %w)", ErrUnsupported, call, err)
	default:
		return os.NewSyscallError(call, err)
	}
}

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// as calls open in this thread, which looks at files as the user does meanwhile, as a member of the user's first group
// alone. The thread keeps its mounts: a file opened elsewhere could not be mounted.
func as(account Account, open func() (*os.File, error)) (*os.File, error) {
	runtime.LockOSThread()
	own, err := unix.Getgroups()
	if err != nil {
		return nil, err
	}
	err = look(account.UID, account.GID, nil)
	var file *os.File
	if err == nil {
		file, err = open()
	} else {
		err = fmt.Errorf("cannot look at files as the user %d: %w", account.UID, err)
	}
	if restored := look(os.Geteuid(), os.Getegid(), own); restored != nil {
		if file != nil {
			_ = file.Close()
		}
		return nil, errors.Join(err, restored) // no other goroutine gets this thread
	}
	runtime.UnlockOSThread()
	return file, err
}

// look has this thread look at files as a user (setfsuid(2)).
func look(uid, gid int, groups []int) error {
	if err := setGroups(groups); err != nil {
		return err
	}
	_ = unix.Setfsgid(gid) // these return the former ID, and no error
	_ = unix.Setfsuid(uid)
	nowUser, err := unix.SetfsuidRetUid(-1)
	nowGroup, err2 := unix.SetfsgidRetGid(-1)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if nowUser != uid || nowGroup != gid {
		return unix.EPERM
	}
	return nil
}

// setGroups changes this thread alone: unix.Setgroups changes all.
func setGroups(groups []int) error {
	list := make([]uint32, len(groups)+1)
	for i, g := range groups {
		list[i] = uint32(g)
	}
	//nolint:gosec // the list is used during the call alone
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0)
	if errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	return nil
}

package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
)

// lender lends the toolchains of this host to sandboxes.
type lender struct{ Host }

// lendToolchains mounts the toolchains that the unit of an instance shows, for BindReadOnlyPaths= of the unit, and
// lists them for it. uid is the user whose toolchains are shown if the settings allow that, or 0. They are the settings
// of the file, which is root's: no other process decides which directories root shows. A toolchain that cannot be shown
// is in the list with the reason, and does not keep the command from running.
func (h lender) lendToolchains(instance string, uid int) error {
	all, account := h.wanted(uid)
	if len(all) == 0 {
		return nil
	}
	place := filepath.Join(h.ToolchainMounts, instance)
	return h.OnHost(func() error {
		err := takeBack(place)
		if err == nil {
			err = os.MkdirAll(h.ToolchainMounts, 0o700)
		}
		if err == nil {
			err = os.Mkdir(place, 0o700)
		}
		if err != nil {
			return err
		}
		if err := show(place, all, account); err != nil {
			return errors.Join(err, takeBack(place))
		}
		return nil
	})
}

// takeBackToolchains is for after the last process of the unit, and does nothing if none were lent.
func (h lender) takeBackToolchains(instance string) error {
	place := filepath.Join(h.ToolchainMounts, instance)
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return h.OnHost(func() error { return takeBack(place) })
}

// wanted returns the toolchains to show, and the account of the user. Settings that cannot be read are a toolchain with
// a fault.
func (h lender) wanted(uid int) (all []sandbox.Toolchain, account sandbox.Account) {
	settings, err := sandbox.Read(h.Settings)
	if err != nil {
		return []sandbox.Toolchain{{Fault: err.Error()}}, account
	}
	all = settings.Wanted()
	if uid == 0 || !settings.UserToolchains {
		return all, account
	}
	path := filepath.Join(h.Etc, paths.Passwd)
	passwd, err := os.ReadFile(path)
	if err == nil {
		account, err = sandbox.FindAccount(passwd, uid)
	}
	if err == nil { // links above a home are root's
		account.Home, err = filepath.EvalSymlinks(account.Home)
	}
	if err != nil {
		fault := fmt.Sprintf("the toolchains of the user %d are not shown: %s: %v", uid, path, err)
		return append(all, sandbox.Toolchain{User: true, Fault: fault}), account
	}
	return append(all, sandbox.OfUser(account.Home, all)...), account
}

// show mounts a directory at place with the toolchains and their list. Its mounts are shared as those of the host are,
// so that their end reaches the copies in the namespaces of other units (mount_namespaces(7)).
func show(place string, all []sandbox.Toolchain, account sandbox.Account) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("codex-toolchains", place, "tmpfs", flags, "mode=0755,size=2m,nr_inodes=4096"); err != nil {
		return fmt.Errorf("cannot mount %s: %w", place, err)
	}
	top, err := openDir(place)
	if err != nil {
		return err
	}
	defer top.Close()
	shown := []sandbox.Toolchain{}
	for _, t := range all {
		if err := top.show(t, account); err != nil {
			if t.User && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			t.Fault = err.Error()
		}
		shown = append(shown, t)
	}
	return sandbox.WriteList(place, shown)
}

// show mounts one toolchain below d.
func (d dir) show(t sandbox.Toolchain, account sandbox.Account) error {
	if t.Fault != "" {
		return errors.New(t.Fault)
	}
	if !t.Hidden() { // the sandbox sees it as it is
		_, err := os.Stat(t.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			_, err = t.Open() // with the remedy
		}
		return err
	}
	open := t.Open
	if t.User {
		open = func() (*os.File, error) { return t.OpenAs(account) }
	}
	from, err := open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := d.makeAll(strings.TrimPrefix(t.Dir, "/"))
	if err != nil {
		return err
	}
	defer to.Close()
	if err := bind(from, to.File); err != nil {
		return fmt.Errorf("cannot mount %s: %w", t.Dir, err)
	}
	return nil
}

// makeAll makes a directory below d and those above it. None of them is on another mount: a toolchain inside another
// one belongs to a user, who decides what its names lead to.
func (d dir) makeAll(path string) (dir, error) {
	at := dir{d.File}
	for _, name := range strings.Split(path, "/") {
		if err := unix.Mkdirat(int(at.Fd()), name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return dir{}, &os.PathError{Op: "mkdir", Path: at.Name() + "/" + name, Err: err}
		}
		fd, err := unix.Openat2(int(at.Fd()), name, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		})
		if at.File != d.File {
			_ = at.Close()
		}
		if err != nil {
			return dir{}, &os.PathError{Op: "open", Path: d.Name() + "/" + path, Err: err}
		}
		at = dir{os.NewFile(uintptr(fd), d.Name()+"/"+path)}
	}
	return at, nil
}

// bind mounts a directory at another one, without what is mounted below it, read-only from the first moment on
// (mount_setattr(2)), and none of the later mounts there. Both are open: no path leads elsewhere meanwhile.
func bind(from, to *os.File) error {
	mount, err := unix.OpenTree(int(from.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer func() { _ = unix.Close(mount) }()
	attributes := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Propagation: unix.MS_PRIVATE,
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
		return os.NewSyscallError("mount_setattr", err)
	}
	err = unix.MoveMount(mount, "", int(to.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return os.NewSyscallError("move_mount", err)
}

// takeBack removes the mounts of show, and their directory. It removes no file: toolchains are not ours.
func takeBack(place string) error {
	err := unix.Unmount(place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) { // nothing is mounted
		err = nil
	}
	if err == nil {
		err = ignoreMissing(os.Remove(place))
	}
	if err != nil {
		return fmt.Errorf("cannot take back the toolchains at %s: %w", place, err)
	}
	return nil
}

package inside

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// scratch is where the machine's tmpfs is mounted until it becomes the root:
// a directory that every host has and that nobody binds from. The mount exists
// in the machine's own mount namespace only.
const scratch = "/sys"

// mountAll makes the root and moves the calling process into it.
func (s Spec) mountAll() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make mounts private: %w", err)
	}
	binds, err := s.openBinds()
	if err != nil {
		return err
	}
	if err := mountFS("tmpfs", scratch, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	root := scratch + "/root"
	if err := s.mountRoot(root); err != nil {
		return err
	}
	if err := s.install(root); err != nil {
		return err
	}
	if err := pivot(root); err != nil {
		return err
	}
	if err := mountSystem(); err != nil {
		return err
	}
	return attachBinds(binds)
}

// mountRoot mounts the overlay and one more for every file system of the host
// below its root.
func (s Spec) mountRoot(root string) error {
	disk := cmp.Or(s.Disk, scratch)
	if err := mountOverlay(append(s.Layers, s.Lower), root, disk, 0); err != nil {
		return err
	}
	for i, point := range s.Submounts {
		if err := mountOverlay([]string{point}, filepath.Join(root, point), disk, i+1); err != nil {
			return err
		}
	}
	for i, dir := range s.Empty {
		target := filepath.Join(root, dir)
		if _, err := os.Stat(target); err == nil {
			if err := s.mountEmpty(target, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountEmpty shows a directory in which there is nothing but what the machine has written to its disk.
func (s Spec) mountEmpty(target string, n int) error {
	if s.Disk == "" {
		return mountFS("tmpfs", target, "tmpfs", 0, "mode=0755")
	}
	source := EmptyDir(s.Disk, n)
	if err := os.MkdirAll(source, 0o755); err != nil {
		return fmt.Errorf("cannot empty %s: %w", target, err)
	}
	return unix.Mount(source, target, "", unix.MS_BIND, "")
}

// EmptyDir is the place on a disk of the directory with that number among Options.Empty.
func EmptyDir(disk string, n int) string { return fmt.Sprintf("%s/empty%d", disk, n) }

// UpperDir is the place on a disk of what the machine writes to the overlay with that number.
func UpperDir(disk string, n int) string { return fmt.Sprintf("%s/upper%d", disk, n) }

var overlayEscapes = strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`)

// mountOverlay shows the lower directories, the top first.
func mountOverlay(lower []string, target, disk string, n int) error {
	upper, work := UpperDir(disk, n), fmt.Sprintf("%s/work%d", disk, n)
	for _, dir := range []string{upper, work, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("cannot prepare the overlay: %w", err)
		}
	}
	escaped := make([]string, len(lower))
	for i, dir := range lower {
		escaped[i] = overlayEscapes.Replace(dir)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(escaped, ":"),
		overlayEscapes.Replace(upper), overlayEscapes.Replace(work))
	return mountFS("overlay", target, "overlay", 0, options)
}

// pivot makes root the root of the mount namespace, pivot_root(2), "." over ".".
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("cannot enter the root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot pivot into the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot leave the host's root: %w", err)
	}
	return os.Chdir("/")
}

// mountSystem mounts what the container interface of systemd asks for
// (https://systemd.io/CONTAINER_INTERFACE). /sys is read-only so that udev
// stays away; /proc/sys is until systemd has started, see uncoverSysctl.
func mountSystem() error {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return errors.Join(
		mountFS("proc", "/proc", "proc", safe, ""),
		unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""),
		unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|safe, ""),
		mountFS("sysfs", "/sys", "sysfs", safe|unix.MS_RDONLY, ""),
		mountFS("cgroup2", "/sys/fs/cgroup", "cgroup2", safe, ""),
		mountFS("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=0755"),
		mountFS("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"),
		mountFS("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
		os.MkdirAll("/run/host", 0o755),
		makeDevices(),
		// Without it LoadCredential= and mounts made by units silently stay unseen.
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""),
	)
}

func makeDevices() error {
	unix.Umask(0)
	defer unix.Umask(0o022)
	var errs []error
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		errs = append(errs, unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))))
	}
	errs = append(errs,
		unix.Mknod("/dev/tty", unix.S_IFCHR|0o666, int(unix.Mkdev(5, 0))),
		unix.Mknod("/dev/console", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), // nobody watches: null
		mountFS("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
			"newinstance,ptmxmode=0666,mode=0620,gid=5"),
		mountFS("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"),
	)
	for link, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	} {
		errs = append(errs, os.Symlink(target, "/dev/"+link))
	}
	return errors.Join(errs...)
}

func mountFS(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("cannot mount %s: %w", target, err)
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("cannot mount %s on %s: %w", fstype, target, err)
	}
	return nil
}

// openBind is a detached copy of a mount of the host, waiting for its place.
type openBind struct {
	Bind
	fd int
}

// openBinds copies the mounts while the host's root is still there.
func (s Spec) openBinds() ([]openBind, error) {
	var list []openBind
	for _, b := range s.Binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return nil, fmt.Errorf("cannot bind %s: %w", b.Source, err)
		}
		if b.ReadOnly {
			attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
			if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
				return nil, fmt.Errorf("cannot bind %s read-only: %w", b.Source, err)
			}
		}
		list = append(list, openBind{Bind: b, fd: fd})
	}
	return list, nil
}

func attachBinds(binds []openBind) error {
	for _, b := range binds {
		if err := makeMountPoint(b); err != nil {
			return fmt.Errorf("cannot bind %s: %w", b.Target, err)
		}
		if err := unix.MoveMount(b.fd, "", unix.AT_FDCWD, b.Target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("cannot bind %s on %s: %w", b.Source, b.Target, err)
		}
		_ = unix.Close(b.fd)
	}
	return nil
}

// makeMountPoint makes a directory for a directory and a file for the rest.
func makeMountPoint(b openBind) error {
	var st unix.Stat_t
	if err := unix.Fstat(b.fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(b.Target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(b.Target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(b.Target, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

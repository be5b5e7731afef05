package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupPrefix starts the name of every machine's cgroup, below the root of the cgroup
// namespace. Below a cgroup with processes there could be no controllers ("no internal
// processes", cgroups(7)).
const cgroupPrefix = "codex-machine-"

// cgroup is a machine's own cgroup. Its owner holds an flock on the directory,
// which the kernel drops when the owner dies: an unlocked one is a leftover.
type cgroup struct {
	base string // directory of the cgroup2 root; may be /proc/self/fd/N
	name string
	dir  *os.File // locked
	root *os.File // the private mount behind base, if there is one
}

func newCgroup() (*cgroup, error) {
	base, root, err := cgroupRoot()
	if err != nil {
		return nil, err
	}
	for range 10 { // a sweep elsewhere may take the directory before it is locked
		name, err := os.MkdirTemp(base, cgroupPrefix)
		if err != nil {
			return nil, fmt.Errorf("cannot make a cgroup: %w", err)
		}
		if dir := lockCgroup(name); dir != nil {
			return &cgroup{base: base, name: filepath.Base(name), dir: dir, root: root}, nil
		}
	}
	return nil, errors.New("cannot make a cgroup: it is removed as soon as it is made")
}

// lockCgroup returns the locked directory, or nil if another process has the
// lock or the directory is gone.
func lockCgroup(path string) *os.File {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	locked := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	if _, err := os.Stat(path); !locked || err != nil {
		_ = dir.Close()
		return nil
	}
	return dir
}

// cgroupRoot returns the directory of the cgroup2 hierarchy, and the private
// mount to keep open if the host has none. An existing mount comes first:
// mounting cgroup2 again resets the hierarchy's options (nsdelegate and such)
// for the whole host.
func cgroupRoot() (string, *os.File, error) {
	if path := mountedCgroup2(); path != "" {
		return path, nil, nil
	}
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", nil, fmt.Errorf("cannot use cgroup2: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", nil, fmt.Errorf("cannot use cgroup2: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("cannot mount cgroup2: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), os.NewFile(uintptr(fd), "cgroup2"), nil
}

func mountedCgroup2() string {
	for _, m := range mounts() {
		if m.fstype == "cgroup2" && m.root == "/" && unix.Access(m.point, unix.W_OK) == nil {
			return m.point
		}
	}
	return ""
}

func (c *cgroup) path(elem ...string) string {
	return filepath.Join(append([]string{c.base, c.name}, elem...)...)
}

// remove kills the processes left in the cgroup and removes it.
func (c *cgroup) remove(timeout time.Duration) error {
	defer c.dir.Close()
	err := removeCgroup(c.path(), timeout)
	if c.root != nil {
		_ = c.root.Close()
	}
	return err
}

// removeCgroup retries: the kernel returns EBUSY until the last process of a cgroup has
// been reaped, which no event reports.
func removeCgroup(path string, timeout time.Duration) error {
	_ = os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0)
	deadline := time.Now().Add(timeout)
	for {
		err := removeTree(path)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cannot remove the machine's cgroup: %w", err)
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // see above: there is no event
	}
}

func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = removeTree(filepath.Join(path, e.Name()))
		}
	}
	return unix.Rmdir(path)
}

// sweep removes the cgroups of machines whose owner was killed. A cgroup that it can't
// remove does not affect the next machine.
func sweep() {
	base, root, err := cgroupRoot()
	if err != nil {
		return
	}
	if root != nil {
		defer root.Close()
	}
	left, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*"))
	for _, path := range left {
		if dir := lockCgroup(path); dir != nil {
			_ = removeCgroup(path, closeTimeout)
			_ = dir.Close()
		}
	}
}

// Controllers returns which of memory, cpu, pids and io the machine's cgroups
// can use, and which not: limits of a missing controller (MemoryMax=,
// TasksMax=, CPUQuota=) are accepted by systemd but not enforced.
func (m *Machine) Controllers() (present, missing []string) {
	data, _ := os.ReadFile(m.cgroup.path("cgroup.controllers"))
	have := strings.Fields(string(data))
	for _, name := range []string{"memory", "cpu", "pids", "io"} {
		if slices.Contains(have, name) {
			present = append(present, name)
		} else {
			missing = append(missing, name)
		}
	}
	return present, missing
}

// mount is a line of mountinfo, proc_pid_mountinfo(5).
type mount struct{ root, point, fstype string }

func mounts() []mount {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var list []mount
	for lines := bufio.NewScanner(f); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if len(b) >= 5 && len(a) >= 1 {
			list = append(list, mount{root: b[3], point: unescapeMount(b[4]), fstype: a[0]})
		}
	}
	return list
}

var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func unescapeMount(path string) string { return mountEscapes.Replace(path) }

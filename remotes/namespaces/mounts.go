package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount changes the mounts of this process, which is the first one of its namespaces, and its working directory.
func (v View) mount() error {
	// Later mounts of the machine appear here, too; mounts made here do not appear there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("cannot separate the mounts: %w", err)
	}
	shown, err := held(v.Shown)
	if err != nil {
		return err
	}
	defer release(shown)
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "/proc", "proc", quiet, ""); err != nil {
		return fmt.Errorf("cannot mount a /proc without the processes of others: %w", err)
	}
	if err := terminals(); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("cannot mount a /dev/shm: %w", err)
	}
	for _, dir := range tops(v.Hidden) {
		if err := empty(dir, shown); err != nil {
			return err
		}
	}
	for _, dir := range v.Covered {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() { // a mount over a link would cover its target alone
			return fmt.Errorf("cannot cover %s: it is no directory", dir)
		}
		if err := empty(dir, nil); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(v.Pinned)) {
		if err := pin(path, v.Pinned[path]); err != nil {
			return err
		}
	}
	if err := os.Chdir(v.Dir); err != nil {
		return fmt.Errorf("cannot enter the directory of the work: %w", err)
	}
	return nil
}

// terminals hides the terminals of others, which a process of the same user may type into.
func terminals() error {
	const path = "/dev/pts"
	if err := unix.Mount("devpts", path, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("cannot mount a /dev/pts: %w", err)
	}
	info, err := os.Lstat("/dev/ptmx")
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return nil // a link to pts/ptmx
	}
	if err := unix.Mount(path+"/ptmx", "/dev/ptmx", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot replace /dev/ptmx: %w", err)
	}
	return nil
}

// place is a file or directory that stays visible.
type place struct {
	path string
	file *os.File // O_PATH
	dir  bool
}

// held opens the places before something hides them.
func held(paths []string) ([]place, error) {
	var places []place
	for _, path := range paths {
		f, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			release(places)
			return nil, fmt.Errorf("cannot show %s to codex: %w", path, err)
		}
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		places = append(places, place{path, f, info.IsDir()})
	}
	// A directory before its contents.
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.path, b.path) })
	return places, nil
}

func release(places []place) {
	for _, p := range places {
		_ = p.file.Close()
	}
}

// empty mounts an empty directory over dir, or over the one that it is a link to, with the places that lie in it.
func empty(dir string, shown []place) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || err == nil && !info.IsDir() {
		return nil
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("cannot hide %s: %w", dir, err)
	}
	for _, p := range shown {
		if p.path != dir && within(p.path, dir) {
			if err := p.show(); err != nil {
				return err
			}
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("cannot hide %s: %w", dir, err)
	}
	return nil
}

// pin gives a file another content: its directory becomes another one, with the same entries beside it.
func pin(path, content string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot pin %s: %w: make the directory, or reinstall the package", path, err)
	}
	var others []string
	for _, entry := range entries {
		if other := filepath.Join(dir, entry.Name()); other != path {
			others = append(others, other)
		}
	}
	places, err := held(others)
	if err != nil {
		return err
	}
	defer release(places)
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("cannot pin %s: %w", path, err)
	}
	for _, p := range places {
		if err := p.show(); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path, []byte(content), 0o444); err != nil {
		return fmt.Errorf("cannot pin %s: %w", path, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("cannot pin %s: %w", path, err)
	}
	return nil
}

// show binds the place to its path again.
func (p place) show() error {
	err := os.MkdirAll(filepath.Dir(p.path), 0o755)
	if err == nil && p.dir {
		err = os.MkdirAll(p.path, 0o755)
	} else if err == nil {
		err = os.WriteFile(p.path, nil, 0o600)
	}
	if err == nil {
		err = unix.Mount("/proc/self/fd/"+strconv.Itoa(int(p.file.Fd())), p.path, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("cannot show %s to codex: %w", p.path, err)
	}
	return nil
}

// tops are the directories that lie in no other one of the list.
func tops(dirs []string) []string {
	var list []string
	for _, dir := range slices.Sorted(slices.Values(dirs)) {
		if !slices.ContainsFunc(list, func(of string) bool { return within(dir, of) }) {
			list = append(list, dir)
		}
	}
	return list
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

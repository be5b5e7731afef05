// Package reach finds out whether a user may use a path, for files that name both.
package reach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"codex-proxy/cmd/internal/doctor"
)

// Check is the error of a path that the user may not use (path_resolution(7)): want is 1 for execution, 2 for
// writing.
// It does not look at access control lists: a path with one passes.
func Check(as doctor.Account, path string, want fs.FileMode) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return reason(err)
	}
	for dir := filepath.Dir(target); ; dir = filepath.Dir(dir) {
		if err := allowed(as, dir, 1); err != nil {
			return err
		}
		if dir == "/" {
			return allowed(as, target, want)
		}
	}
}

// allowed looks at the mode of one file.
func allowed(as doctor.Account, path string, want fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return reason(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case owner.Uid == as.UID:
		mode >>= 6
	case slices.Contains(as.Groups, owner.Gid) || owner.Gid == as.GID:
		mode >>= 3
	}
	if mode&want != 0 || hasList(path) {
		return nil
	}
	return fmt.Errorf("the user has no permission for %s", path)
}

// hasList reports whether the file has an access control list (acl(5)).
func hasList(path string) bool {
	size, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}

// reason is the error without the path, which stands before it.
func reason(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Package reach finds out whether a user may use a path, for files that name both.
package reach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Account is a user of the machine.
type Account struct {
	UID, GID uint32
	Groups   []uint32 // GID included
}

// Lookup returns the ids of a user.
func Lookup(name string) (Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Account{}, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return Account{}, err
	}
	var groups []uint32
	for _, id := range append([]string{u.Uid, u.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return Account{}, fmt.Errorf("the user %s has the id %q", name, id)
		}
		groups = append(groups, uint32(n))
	}
	return Account{UID: groups[0], GID: groups[1], Groups: groups[1:]}, nil
}

// Check is the error of a path that the user may not use (path_resolution(7)): want is 1 for execution, 2 for
// writing.
// It does not look at access control lists: a path with one passes.
func Check(as Account, path string, want fs.FileMode) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Reason(err)
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
func allowed(as Account, path string, want fs.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return Reason(err)
	}
	if Permits(info, as, want) || hasList(path) {
		return nil
	}
	return fmt.Errorf("the user has no permission for %s", path)
}

// Permits reports whether the mode of a file has all bits of want for the user, from 1 to 7 (inode(7)). It does not
// look at access control lists. Everything is permitted to root.
func Permits(info fs.FileInfo, as Account, want fs.FileMode) bool {
	owner, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
	switch {
	case as.UID == 0:
		return true
	case owner.Uid == as.UID:
		mode >>= 6
	case slices.Contains(as.Groups, owner.Gid) || owner.Gid == as.GID:
		mode >>= 3
	}
	return mode&want == want
}

// hasList reports whether the file has an access control list (acl(5)).
func hasList(path string) bool {
	size, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}

// Reason is the error without the path, which stands before it.
func Reason(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

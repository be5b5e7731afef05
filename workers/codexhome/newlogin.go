package codexhome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The names of a login on its way into a home and out of it. codex rewrites auth.json when it refreshes its tokens:
// so a new login waits next to it until codex has ended.
const (
	newAuthName    = "auth.json.new"
	beforeAuthName = "auth.json.before"
)

// Offer puts the login of LogIn in dir into the home as a new login, in one step. AdoptLogin makes it the home's
// login, while no codex runs there: the worker's next start does so. The owner of the home is not trusted.
func Offer(dir, home string) error {
	doc, err := readLogin(dir, authName)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return fmt.Errorf("cannot put the login into the worker's home: %w", err)
	}
	defer func() { _ = root.Close() }()
	owner, err := ownerOf(root)
	if err == nil {
		err = writeOwned(root, newAuthName, doc, owner)
	}
	if err != nil {
		return fmt.Errorf("cannot put the login into the worker's home: %w", err)
	}
	return nil
}

// AdoptLogin makes the new login of a home, if there is one, its login, and keeps the one before for TakeBefore. The
// caller holds the lock of the home. A stop at any point leaves a home with a login and, perhaps, the new one.
func AdoptLogin(home string) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return fmt.Errorf("cannot use the new login: %w", err)
	}
	defer func() { _ = root.Close() }()
	if _, err := root.Lstat(newAuthName); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err = ignoreMissing(root.Remove(beforeAuthName))
	if err == nil {
		err = ignoreMissing(root.Link(authName, beforeAuthName))
	}
	if err == nil {
		err = root.Rename(newAuthName, authName)
	}
	if err != nil {
		return fmt.Errorf("cannot use the new login: %w", err)
	}
	return nil
}

// TakeBefore moves the login that AdoptLogin has replaced into dir, for as, and reports whether there was one.
func TakeBefore(home, dir string, as Account) (bool, error) {
	doc, err := readLogin(home, beforeAuthName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	from, err := os.OpenRoot(home)
	if err != nil {
		return false, fmt.Errorf("cannot take the previous login: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("cannot take the previous login: %w", err)
	}
	defer func() { _ = to.Close() }()
	err = writeOwned(to, authName, doc, as)
	if err == nil {
		err = from.Remove(beforeAuthName)
	}
	if err != nil {
		return false, fmt.Errorf("cannot take the previous login: %w", err)
	}
	return true, nil
}

// loginNames are the files with a login in a home.
var loginNames = []string{authName, newAuthName, beforeAuthName}

// loginIn is a file with a login in the home; empty if there is none.
func loginIn(home string) string {
	for _, name := range loginNames {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			return name
		}
	}
	return ""
}

// Offered reports whether a new login waits in the home.
func Offered(home string) bool {
	_, err := os.Lstat(filepath.Join(home, newAuthName))
	return err == nil
}

// MoveLogin moves the login of one home into another, and reports whether there was one. The caller holds both locks.
// The login is never in two homes: each file moves in one step, and the homes have to be in one file system.
// The owners of the homes are not trusted. A stop at any point leaves the rest to the next call.
func MoveLogin(from, to string) (moved bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot move the login from %s to %s: %w", from, to, err)
		}
	}()
	source, err := os.OpenRoot(from)
	if err != nil {
		return false, err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenRoot(to)
	if err != nil {
		return false, err
	}
	defer func() { _ = target.Close() }()
	owner, err := ownerOf(target)
	if err != nil {
		return false, err
	}
	for _, name := range []string{beforeAuthName, newAuthName, authName} { // the last one makes the move complete
		here, err := moveFile(source, target, name)
		if err == nil {
			err = take(target, name, owner)
		}
		if err != nil {
			return false, err
		}
		moved = moved || here
	}
	return moved, nil
}

// moveFile moves a file of the login, and never replaces one.
func moveFile(source, target *os.Root, name string) (moved bool, err error) {
	info, err := source.Lstat(name)
	switch {
	case err != nil:
		return false, ignoreMissing(err)
	case !info.Mode().IsRegular():
		return false, notAFile(name)
	}
	if _, err := readOwn(source, name); err != nil {
		return false, err
	}
	from, err := source.Open(".")
	if err != nil {
		return false, err
	}
	defer from.Close()
	to, err := target.Open(".")
	if err != nil {
		return false, err
	}
	defer to.Close()
	err = unix.Renameat2(int(from.Fd()), name, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("both have a file %s, remove the one that is not wanted: %w", name, err)
	case errors.Is(err, unix.EXDEV):
		return false, fmt.Errorf("%w: both directories have to be in one file system: give them one, or remove %s, and log in again",
			err, name)
	case err != nil:
		return false, err
	}
	return true, errors.Join(to.Sync(), from.Sync())
}

// notAFile is the error of a login that is a link, or a directory: a rename would move that alone.
func notAFile(name string) error {
	return fmt.Errorf("%s is no file but a link or a directory: put the file of codex's login in its place", name)
}

// take makes a file of a login the owner's, as a new file: the old owner may have links to the old one.
func take(home *os.Root, name string, owner Account) error {
	info, err := home.Lstat(name)
	if err != nil {
		return ignoreMissing(err)
	}
	if st := info.Sys().(*syscall.Stat_t); info.Mode().IsRegular() && st.Uid == owner.UID && st.Nlink == 1 {
		return nil
	}
	if !info.Mode().IsRegular() { // it has come meanwhile
		return notAFile(name)
	}
	doc, err := readOwn(home, name)
	if err != nil {
		return err
	}
	return writeOwned(home, name, doc, owner)
}

func readLogin(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the login: %w", err)
	}
	defer func() { _ = root.Close() }()
	doc, err := readOwn(root, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the login in %s: %w", filepath.Join(dir, name), err)
	}
	return doc, nil
}

func ownerOf(root *os.Root) (Account, error) {
	info, err := root.Stat(".")
	if err != nil {
		return Account{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return Account{UID: st.Uid, GID: st.Gid}, nil
}

// writeOwned replaces a file in one step by one that its owner alone can read.
func writeOwned(root *os.Root, name string, doc []byte, owner Account) error {
	temp := name + ".part"
	if err := ignoreMissing(root.Remove(temp)); err != nil {
		return err
	}
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(doc)
	err = errors.Join(err, file.Chown(int(owner.UID), int(owner.GID)), file.Sync(), file.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

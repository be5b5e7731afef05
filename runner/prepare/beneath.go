package prepare

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// dir is an open directory that another user may write to. Nothing in it is trusted: every name in it is opened
// relative to it, and no link is followed (openat2(2)).
type dir struct{ *os.File }

// openDir opens a directory by a path that root alone can change.
func openDir(path string) (dir, error) {
	file, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	return dir{file}, err
}

func (d dir) openat(path string, flags int, mode uint64) (*os.File, error) {
	fd, err := unix.Openat2(int(d.Fd()), path, &unix.OpenHow{
		// Without O_NONBLOCK a FIFO would hold us up.
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY),
		Mode:    mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.Name() + "/" + path, Err: err}
	}
	return os.NewFile(uintptr(fd), d.Name()+"/"+path), nil
}

// sub opens a directory below d.
func (d dir) sub(path string) (dir, error) {
	file, err := d.openat(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	return dir{file}, err
}

// open opens a regular file of d's owner below d for reading. Any other file is an error, also one that has another
// name: a hard link may lead to a file of root.
func (d dir) open(path string) (*os.File, error) {
	file, err := d.openat(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if err := d.checkOwn(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (d dir) checkOwn(file *os.File) error {
	var above, st unix.Stat_t
	if err := errors.Join(unix.Fstat(int(d.Fd()), &above), unix.Fstat(int(file.Fd()), &st)); err != nil {
		return &os.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is no regular file", file.Name())
	case st.Nlink != 1:
		return fmt.Errorf("%s has %d names: one is right", file.Name(), st.Nlink)
	case st.Uid != above.Uid:
		return fmt.Errorf("%s belongs to the user %d, and not to %d as the directory %s", file.Name(), st.Uid,
			above.Uid, d.Name())
	}
	return nil
}

// read returns the content of a regular file of at most size bytes.
func (d dir) read(path string, size int64) ([]byte, error) {
	file, err := d.open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, size+1))
	if err == nil && int64(len(text)) > size {
		err = fmt.Errorf("%s is longer than %d bytes", file.Name(), size)
	}
	return text, err
}

// create makes a new file for writing, which belongs to owner. An existing one is an error.
func (d dir) create(name string, owner owner) (*os.File, error) {
	file, err := d.openat(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Chown(owner.uid, owner.gid); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// make makes a directory that belongs to owner, unless it exists, and opens it. Only the owner may enter a new one.
func (d dir) make(name string, owner owner) (dir, error) {
	made := unix.Mkdirat(int(d.Fd()), name, 0o700)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return dir{}, &os.PathError{Op: "mkdir", Path: d.Name() + "/" + name, Err: made}
	}
	sub, err := d.sub(name)
	if err != nil || made != nil {
		return sub, err
	}
	if err := sub.Chown(owner.uid, owner.gid); err != nil {
		return dir{}, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// remove removes a file that is no directory, if there is one.
func (d dir) remove(name string) error {
	if err := unix.Unlinkat(int(d.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: d.Name() + "/" + name, Err: err}
	}
	return nil
}

// owner is the user and the group of a file.
type owner struct{ uid, gid int }

func ownerOf(file *os.File) (owner, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return owner{}, &os.PathError{Op: "stat", Path: file.Name(), Err: err}
	}
	return owner{int(st.Uid), int(st.Gid)}, nil
}

package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// recordFormat is the first line of a record. Another version of the program that checks files out in another way
// changes it, so that it keeps no file of this one.
const recordFormat = "codex-runner workspace 1"

// maxRecord is the longest record that is read, in bytes: some millions of files.
const maxRecord = 1 << 30

// file is a file of a checkout: its entry in git, and its state on the disk before foreign code ran.
type file struct {
	entry        // its path begins at the top of the tree
	mode  uint32 // st_mode
	size  int64
	mtime int64 // nanoseconds
	sum   [sha256.Size]byte
}

// record has the files of a checkout by their paths.
//
// git's own index cannot take its place: it trusts the times and sizes of files. Their owner can set any time, and the
// chown between two sessions changes the rest.
type record map[string]file

// readRecord returns no files if there is no whole record, as after a write that was cut off.
func readRecord(from *os.File) (record, error) {
	data, err := io.ReadAll(io.NewSectionReader(from, 0, maxRecord))
	if err != nil {
		return nil, fmt.Errorf("cannot read the record of the workspace: %w", err)
	}
	head, body, _ := bytes.Cut(data, []byte("\n"))
	if string(head) != heading(body) {
		return nil, nil
	}
	files := record{}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(body, []byte{0}), []byte{0}) {
		f, ok := parseFile(string(line))
		if !ok {
			return nil, nil
		}
		files[f.path] = f
	}
	return files, nil
}

// heading has the sum of the record, which detects an incomplete write. A session cannot forge a record: it has no
// access to the file.
func heading(body []byte) string {
	sum := sha256.Sum256(body)
	return recordFormat + " " + hex.EncodeToString(sum[:])
}

func parseFile(line string) (file, bool) {
	fields := strings.SplitN(line, " ", 7)
	if len(fields) != 7 {
		return file{}, false
	}
	mode, err1 := strconv.ParseUint(fields[2], 8, 32)
	size, err2 := strconv.ParseInt(fields[3], 10, 64)
	mtime, err3 := strconv.ParseInt(fields[4], 10, 64)
	f := file{entry: entry{fields[0], fields[1], fields[6]}, mode: uint32(mode), size: size, mtime: mtime}
	n, err4 := hex.Decode(f.sum[:], []byte(fields[5]))
	return f, err1 == nil && err2 == nil && err3 == nil && err4 == nil && n == len(f.sum)
}

// write replaces the record. It needs no fsync: the files are compared with it before they are kept.
func (r record) write(to *os.File) error {
	var body bytes.Buffer
	for _, f := range r {
		fmt.Fprintf(&body, "%s %s %o %d %d %x %s\x00", f.gitMode, f.object, f.mode, f.size, f.mtime, f.sum, f.path)
	}
	data := append([]byte(heading(body.Bytes())+"\n"), body.Bytes()...)
	err := to.Truncate(0)
	if err == nil {
		_, err = to.WriteAt(data, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot write the record of the workspace: %w", err)
	}
	return nil
}

// without returns a record by which no file is kept. With paths, it has the paths of all.
func (r record) without(paths bool) record {
	none := record{}
	for at := range r {
		if paths {
			none[at] = file{}
		}
	}
	return none
}

// sameAttributes reports whether the record and wanted have the same .gitattributes. If not, files may differ on the
// disk although git has the same content for them.
func (r record) sameAttributes(wanted map[string]entry) bool {
	for p, f := range r {
		if path.Base(p) == ".gitattributes" && wanted[p] != f.entry {
			return false
		}
	}
	for p, e := range wanted {
		if path.Base(p) == ".gitattributes" && r[p].entry != e {
			return false
		}
	}
	return true
}

// look reads the file that lies at name in dir now. ok is false for a file that no checkout makes: another kind of
// file, one with several names, or one with attributes such as an access list.
func look(dir *os.Root, name string) (f file, ok bool, err error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return file{}, false, err
	}
	stat := info.Sys().(*syscall.Stat_t) // as package os documents it
	f.mode, f.size, f.mtime = stat.Mode, stat.Size, stat.Mtim.Nano()
	if stat.Nlink != 1 {
		return f, false, nil
	}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := dir.Readlink(name)
		f.sum = sha256.Sum256([]byte(target))
		return f, err == nil, err
	case info.Mode().IsRegular() && stat.Mode&0o400 != 0:
		f.sum, ok, err = sumOf(dir, name)
		return f, ok, err
	}
	return f, false, nil
}

func sumOf(dir *os.Root, name string) (sum [sha256.Size]byte, ok bool, err error) {
	opened, err := dir.Open(name)
	if err != nil {
		return sum, false, err
	}
	defer opened.Close()
	if hasAttributes(int(opened.Fd())) {
		return sum, false, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, opened); err != nil {
		return sum, false, err
	}
	return [sha256.Size]byte(h.Sum(nil)), true, nil
}

// hasAttributes reports whether a file has extended attributes, such as access lists (acl(5)), other than those that
// the kernel's security modules set.
func hasAttributes(fd int) bool {
	var names [4 << 10]byte
	n, err := unix.Flistxattr(fd, names[:])
	if err != nil {
		return err != unix.ENOTSUP
	}
	return len(foreignAttributes(names[:n])) > 0
}

// foreignAttributes returns the attributes of a list (listxattr(2)) that no security module has set.
func foreignAttributes(list []byte) (names []string) {
	for name := range bytes.SplitSeq(bytes.TrimRight(list, "\x00"), []byte{0}) {
		if len(name) > 0 && !bytes.HasPrefix(name, []byte("security.")) {
			names = append(names, string(name))
		}
	}
	return names
}

// dropAttributes removes the extended attributes of the top of a tree, which alone is not made anew. A default access
// list there would give a user rights to every file of the next session.
func dropAttributes(top *os.Root) error {
	dir, err := top.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	const longestList = 64 << 10 // XATTR_LIST_MAX
	list := make([]byte, longestList)
	n, err := unix.Flistxattr(int(dir.Fd()), list)
	switch {
	case errors.Is(err, unix.ENOTSUP):
		return nil
	case err != nil:
		return fmt.Errorf("cannot list its attributes: %w", err)
	}
	for _, name := range foreignAttributes(list[:n]) {
		if err := unix.Fremovexattr(int(dir.Fd()), name); err != nil && !errors.Is(err, unix.ENODATA) {
			return fmt.Errorf("cannot remove its attribute %s: %w", name, err)
		}
	}
	return nil
}

// openTop opens a tree that another session has had.
func openTop(tree string) (*os.Root, error) {
	if err := os.Chmod(tree, dirMode); err != nil {
		return nil, fmt.Errorf("cannot use the workspace: %w", err)
	}
	top, err := os.OpenRoot(tree)
	if err == nil {
		if err = dropAttributes(top); err == nil {
			return top, nil
		}
		_ = top.Close()
	}
	return nil, fmt.Errorf("cannot use the workspace: %w", err)
}

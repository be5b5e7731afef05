package holders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// mostFiles bounds the files of the data that are looked for.
	mostFiles = 20_000
	// deepest bounds the directories below each other.
	deepest = 32
)

// errMany means that the data has more files than are looked for.
var errMany = fmt.Errorf("it has more than %d files: the others are not looked for", mostFiles)

// filesBelow returns the files in and below dirs, with their paths. It follows no link but in the paths of dirs. A
// directory that does not exist has none.
func filesBelow(ctx context.Context, root string, dirs []string) (map[file]string, error) {
	files := map[file]string{}
	var errs []error
	for _, dir := range dirs {
		if err := addFiles(ctx, files, root, dir); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("cannot look at all of %s: %w", dir, err))
		}
	}
	return files, errors.Join(errs...)
}

// level is a directory that is still to be read.
type level struct {
	path  string // below the root
	depth int
}

// addFiles reads the upper directories first: there the files that a server always has open are. os.Root lets no link
// lead out of dir.
func addFiles(ctx context.Context, files map[file]string, start, dir string) error {
	root, err := os.OpenRoot(start + dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	queue := []level{{".", 0}}
	for len(queue) > 0 && ctx.Err() == nil {
		below, err := queue[0].read(root, dir, files)
		if err != nil {
			return err
		}
		if queue = append(queue[1:], below...); len(queue) > mostFiles {
			return errMany
		}
	}
	return ctx.Err()
}

// read adds the files of one directory, and returns the directories in it. Files that are removed meanwhile are left
// out.
func (l level) read(root *os.Root, name string, files map[file]string) (below []level, err error) {
	dir, err := root.Open(l.path)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(mostFiles + 1)
	for _, entry := range names {
		id, mode, err := identify(int(dir.Fd()), entry, unix.AT_SYMLINK_NOFOLLOW)
		inner := path.Join(l.path, entry)
		switch {
		case err != nil:
		case mode&unix.S_IFMT == unix.S_IFREG && len(files) >= mostFiles:
			return nil, errMany
		case mode&unix.S_IFMT == unix.S_IFREG:
			files[id] = path.Join(name, inner)
		case mode&unix.S_IFMT == unix.S_IFDIR && l.depth < deepest:
			below = append(below, level{inner, l.depth + 1})
		}
	}
	return below, nil
}

package artifact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits bound the artifacts of a command.
type Limits struct {
	Bytes int64 // of all files together
	Count int
}

// header precedes each file in an archive: a line of JSON. Bytes of content follow.
type header struct {
	Path  string `json:"path"` // slash-separated, in the workspace
	Bytes int64  `json:"bytes"`
}

// collection writes an archive.
type collection struct {
	tree     *os.Root
	patterns []Pattern
	to       *os.File
	left     Limits
	end      int64 // of the last whole file in to

	missed int
	why    error // of the first file that is missed
}

// Collect writes the files of a tree that match one of the patterns to an empty archive, in the order of their paths,
// until ctx ends. It follows no link, and leaves out directories named .git and files that are not regular. The error
// has the number of files that are not kept, and the reason.
func Collect(ctx context.Context, tree *os.Root, patterns []Pattern, to *os.File, limits Limits) error {
	c := &collection{tree: tree, patterns: patterns, to: to, left: limits}
	err := fs.WalkDir(tree.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return errors.New("it took too long")
		}
		if err != nil {
			c.miss(name, err) // such as an unreadable directory
			return nil
		}
		return c.visit(name, entry)
	})
	switch {
	case err != nil && c.missed > 0:
		return fmt.Errorf("%d files and more were not kept, first %w; then %w", c.missed, c.why, err)
	case err != nil:
		return fmt.Errorf("not all files were kept: %w", err)
	case c.missed > 0:
		return fmt.Errorf("files not kept: %d, first %w", c.missed, c.why)
	}
	return nil
}

func (c *collection) visit(name string, entry fs.DirEntry) error {
	if name == "." {
		return nil
	}
	elements := strings.Split(name, "/")
	if entry.IsDir() {
		if entry.Name() == ".git" || !slices.ContainsFunc(c.patterns,
			func(p Pattern) bool { return p.match(elements) || p.reach(elements) }) {
			return fs.SkipDir
		}
		return nil
	}
	if !entry.Type().IsRegular() || !slices.ContainsFunc(c.patterns,
		func(p Pattern) bool { return p.match(elements) }) {
		return nil
	}
	if err := c.add(name); err != nil {
		c.miss(name, err)
	}
	return nil
}

func (c *collection) miss(name string, err error) {
	if c.missed++; c.why == nil {
		c.why = fmt.Errorf("%.200q: %w", name, err)
	}
}

// add writes a file. One that cannot be written whole leaves nothing.
func (c *collection) add(name string) error {
	before, err := c.tree.Lstat(name)
	if err != nil {
		return err
	}
	file, err := c.tree.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !before.Mode().IsRegular() || !os.SameFile(before, info) {
		return errors.Join(err, errors.New("it changed meanwhile"))
	}
	if c.left.Count < 1 {
		return errors.New("there are more files than a command may keep ([artifacts] count in runner.toml)")
	}
	if info.Size() > c.left.Bytes {
		return errors.New("the files are larger than those that a command may keep ([artifacts] bytes in runner.toml)")
	}
	if err := c.write(header{strings.ToValidUTF8(name, "\uFFFD"), info.Size()}, file); err != nil {
		_, seek := c.to.Seek(c.end, io.SeekStart)
		return errors.Join(err, c.to.Truncate(c.end), seek)
	}
	c.left.Bytes -= info.Size()
	c.left.Count--
	return nil
}

func (c *collection) write(h header, file *os.File) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := c.to.Write(line); err != nil {
		return err
	}
	if n, err := io.CopyN(c.to, file, h.Bytes); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("it has become smaller, %d bytes", n)
		}
		return err
	}
	c.end += int64(len(line)) + h.Bytes
	return nil
}

// Mirror copies the files of this tree to a directory that stays where it is, and leaves those alone whose bytes are the
// same. Go keeps the results of tests by the names and the age of the files that they read, so a test whose files are the
// same there has its result of an earlier tree.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	to := flag.String("to", "", "the directory, which has nothing else")
	flag.Parse()
	if err := mirror(".", *to); err != nil {
		fmt.Fprintln(os.Stderr, "mirror:", err)
		os.Exit(1)
	}
}

// mirror makes to have the files that git knows in from, and those that it does not ignore.
func mirror(from, to string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir, list.Stderr = from, os.Stderr
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	files, directories := map[string]bool{}, map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if info, err := os.Stat(filepath.Join(from, name)); err != nil || info.IsDir() {
			continue // removed, and git does not know yet
		}
		files[name] = true
		for dir := filepath.Dir(name); !directories[dir]; dir = filepath.Dir(dir) {
			directories[dir] = true
		}
	}
	if err := prune(to, files, directories); err != nil {
		return err
	}
	for name := range files {
		if err := update(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// update makes a file have the bytes and the mode of another one.
func update(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if old, err := os.Lstat(to); err == nil && old.Mode() == mode {
		if has, err := os.ReadFile(to); err == nil && bytes.Equal(has, data) {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to, data, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode) // whatever the umask
}

// prune removes all but these.
func prune(to string, files, directories map[string]bool) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(to, path)
		if err != nil || files[name] && d.Type().IsRegular() || directories[name] && d.IsDir() {
			return err
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

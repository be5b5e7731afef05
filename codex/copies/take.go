package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// packageFile has the version of the native packages of npm. It stands in the directory with bin/codex and the
// resources of the program.
const packageFile = "codex-package.json"

// stride is the number of bytes that are copied before the context is asked.
const stride = 16 << 20

// newPrefix begins the names of copies that are not whole yet.
const newPrefix = ".new-"

// Take returns the copy of a native program, and makes it if there is none. A process that is killed meanwhile leaves
// nothing that the next one does not remove. An *InPlaceError says why a program is not to be copied.
func (s *Store) Take(ctx context.Context, program string) (Copy, error) {
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		return Copy{}, err
	}
	if err := makeDirs(s); err != nil {
		return Copy{}, err
	}
	fixed := mounted(program, s.Dir)
	var place *InPlaceError
	if s.Confined && errors.As(fixed, &place) && place.Steady {
		fixed = nil
	}
	if err := errors.Join(fixed, trusted(program, s.owner)); err != nil {
		return Copy{}, err
	}
	if c, ok := s.known(program); ok {
		return c, nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return Copy{}, err
	}
	defer unlock()
	if c, ok := s.known(program); ok { // by another process
		return c, nil
	}
	sweep(s.Dir)
	c, err := s.take(ctx, program)
	if err != nil {
		return Copy{}, fmt.Errorf("cannot copy codex to %s: %w", s.Dir, err)
	}
	return c, nil
}

// known returns the copy of the program as it is now, without reading it.
func (s *Store) known(program string) (Copy, bool) {
	file, err := identity(program)
	if err != nil {
		return Copy{}, false
	}
	list, _ := s.List()
	for _, c := range list {
		if c.Source == program && c.File == file {
			return c, true
		}
	}
	return Copy{}, false
}

// take copies the program, unless it has a copy from elsewhere, or from before an installation that changed nothing.
func (s *Store) take(ctx context.Context, program string) (Copy, error) {
	file, err := identity(program)
	if err != nil {
		return Copy{}, err
	}
	dir, err := os.MkdirTemp(s.Dir, newPrefix+"*")
	if err != nil {
		return Copy{}, err
	}
	defer os.RemoveAll(dir)
	if err := copyCodex(ctx, s.owner, program, dir); err != nil {
		return Copy{}, err
	}
	copied := filepath.Join(dir, "bin/codex")
	c := Copy{Source: program, File: file, Taken: time.Now().UTC()}
	if c.Hash, err = hashOf(copied); err != nil {
		return Copy{}, err
	}
	if info, err := os.Stat(copied); err == nil {
		c.Size = info.Size()
	}
	if now, err := identity(program); err != nil || now != file {
		return Copy{}, errors.Join(errors.New("it changes just now: is it being installed?"), err)
	}
	if c.Version = versionOf(ctx, dir, program, s.Version); c.Version == unknown {
		c.Version = given(s, c.Hash)
	}
	c.Name = nameOf(c.Version, c.Hash)
	if old, err := s.Get(c.Name); err == nil && old.Hash == c.Hash {
		old.Source, old.File = c.Source, c.File
		return old, writeFile(filepath.Join(s.Dir, c.Name, recordFile), old)
	}
	if err := keep(c, dir, filepath.Join(s.Dir, c.Name)); err != nil {
		return Copy{}, err
	}
	return s.Get(c.Name)
}

// given is the version that Rename has given to a copy with that hash, which may be gone if it is held.
func given(s *Store, hash string) string {
	list, _ := s.List()
	if i := slices.IndexFunc(list, func(o Copy) bool { return o.Hash == hash }); i >= 0 {
		return list[i].Version
	}
	state, _ := s.State()
	name := nameOf(unknown, hash)
	if i := slices.IndexFunc(state.Held, func(h Held) bool { return Was(h.Copy, name) }); i >= 0 {
		return versionIn(state.Held[i].Copy)
	}
	return unknown
}

// keep gives the copy in dir its name, once it is on the disk.
func keep(c Copy, dir, final string) error {
	if !ValidName(c.Name) {
		return fmt.Errorf("it has the version %q", c.Version)
	}
	if err := errors.Join(writeFile(filepath.Join(dir, recordFile), c), os.Chmod(dir, 0o755), syncDir(dir)); err != nil { //nolint:gosec // all users read it
		return err
	}
	if err := os.RemoveAll(final); err != nil { // a damaged one
		return err
	}
	return errors.Join(os.Rename(dir, final), syncDir(filepath.Dir(final)))
}

// versionOf reads the version of the codex in dir, or asks the program.
func versionOf(ctx context.Context, dir, program string, ask func(context.Context, string) (string, error)) string {
	var about struct{ Version string }
	text, err := os.ReadFile(filepath.Join(dir, packageFile))
	if err == nil && json.Unmarshal(text, &about) == nil && about.Version != "" {
		return about.Version
	}
	if ask != nil {
		if version, err := ask(ctx, program); err == nil {
			return version
		}
	}
	return unknown
}

// copyCodex copies the program to bin/codex in dir, and with it the resources of a package of npm: what begins with
// "codex" beside it and above. The package may lie in a directory with other programs.
func copyCodex(ctx context.Context, owner int, program, dir string) error {
	bin := filepath.Join(dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Chmod(bin, 0o755)); err != nil { //nolint:gosec // all users read it
		return err
	}
	above := filepath.Dir(filepath.Dir(program))
	_, err := os.Stat(filepath.Join(above, packageFile))
	if err != nil || filepath.Base(program) != "codex" || filepath.Base(filepath.Dir(program)) != "bin" {
		return errors.Join(copyTree(ctx, owner, program, filepath.Join(bin, "codex")), syncDir(bin))
	}
	for _, pattern := range []string{"codex*", "bin/codex*"} {
		parts, err := filepath.Glob(filepath.Join(above, pattern))
		for _, part := range parts {
			err = errors.Join(err, copyTree(ctx, owner, part, filepath.Join(dir, strings.TrimPrefix(part, above))))
		}
		if err != nil {
			return err
		}
	}
	return syncDir(bin)
}

// copyTree copies a file, or a directory with all that is in it. What only some users may read stays so. Another user's
// file beside the program would become one of root, and he could replace it by a link just before root reads it.
func copyTree(ctx context.Context, owner int, from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 { // its mode says nothing
			if err := rootsAlone(path, info, owner); err != nil {
				return err
			}
		}
		to := to + strings.TrimPrefix(path, from)
		mode := info.Mode().Perm() &^ 0o022
		switch {
		case info.IsDir():
			return errors.Join(os.Mkdir(to, 0o700), os.Chmod(to, mode))
		case info.Mode().IsRegular():
			return copyFile(ctx, path, to, mode)
		}
		return fmt.Errorf("%s is neither a file nor a directory", path)
	})
}

// copyFile makes a file with the bytes of another: one that shares its blocks, where the file system can.
func copyFile(ctx context.Context, from, to string, mode fs.FileMode) error {
	source, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(file.Fd()), int(source.Fd())) != nil {
		for err == nil {
			if _, err = io.CopyN(file, source, stride); err == nil {
				err = context.Cause(ctx)
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

func hashOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// sweep removes the remains of killed processes.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, newPrefix+"*"))
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
}

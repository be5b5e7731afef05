package copies

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Rename gives a copy of an unknown version that one, and returns its name from then on. Any other copy keeps its name,
// and so does one that is in use: units have it by that name.
func Rename(ctx context.Context, s *Store, name, found string) (string, error) {
	if !strings.HasPrefix(name, unknown+"-") || !version.MatchString(found) {
		return name, nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return name, err
	}
	defer unlock()
	c, err := s.Get(name)
	if err != nil {
		return name, err
	}
	if state, err := s.State(); err != nil || state.InUse == name || state.Before == name || state.Pinned == name {
		return name, err
	}
	c.Version, c.Name = found, nameOf(found, c.Hash)
	if old, err := s.Get(c.Name); err == nil { // from elsewhere
		old.Source, old.File = c.Source, c.File
		return c.Name, errors.Join(writeFile(filepath.Join(s.Dir, c.Name, recordFile), old),
			repoint(s.Runs, name, c.Name), os.RemoveAll(filepath.Join(s.Dir, name)))
	}
	dir, final := filepath.Join(s.Dir, name), filepath.Join(s.Dir, c.Name)
	err = errors.Join(os.RemoveAll(final), os.Rename(dir, final))
	// After a kill in between the copy is not whole, and the next look makes it anew.
	return c.Name, errors.Join(err, writeFile(filepath.Join(final, recordFile), c), syncDir(s.Dir),
		repoint(s.Runs, name, c.Name))
}

// repoint has the units that had a copy by its former name have it by the new one: Prune looks for them.
func repoint(runs, name, now string) (err error) {
	links, _ := filepath.Glob(filepath.Join(runs, "*"))
	for _, link := range links {
		target, _ := os.Readlink(link)
		if filepath.Base(target) == name {
			err = errors.Join(err, point(link, strings.TrimSuffix(target, name)+now))
		}
	}
	return err
}

// Was reports whether the copy called now is the one called name, which Rename may have renamed since.
func Was(now, name string) bool {
	hash, renamed := strings.CutPrefix(name, unknown)
	return now == name || renamed && strings.HasSuffix(now, hash)
}

// FateOf returns the record of a copy that Was called name, if it is held, and whether it is in use.
func (s State) FateOf(name string) (held Held, is, inUse bool) {
	if Was(s.InUse, name) { // it may be held by its former name
		return Held{}, false, true
	}
	for _, h := range s.Held {
		if Was(h.Copy, name) {
			held, is = h, true
		}
	}
	return held, is, false
}

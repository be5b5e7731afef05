package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Start is a start of a unit that runs codex.
type Start struct {
	Unit string
	// Program is the native program that is installed for the unit; empty if none is.
	Program string
	// Own says that the settings of the unit name another program than the one of all units: no policy is about it.
	Own    bool
	Policy Policy
	// AtOnce puts a new codex into use untried, where nothing tries it.
	AtOnce bool
}

// MissingError says that the version of the policy is not there.
type MissingError struct{ Version string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("codex %[1]s is neither installed nor kept: install it, `npm install -g @openai/codex@%[1]s`, "+
		"or name another version in `codex`", e.Version)
}

// Choose decides which copy a unit runs, and records it for Chosen. An error other than *MissingError says why the unit
// runs the installed program where it is.
func (s *Store) Choose(ctx context.Context, start Start) (Copy, error) {
	if err := s.makeDirs(); err != nil {
		return Copy{}, err
	}
	c, err := s.choose(ctx, start)
	target := c.Name
	var missing *MissingError
	if errors.As(err, &missing) {
		target = missing.Version
	}
	return c, errors.Join(err, s.Assign(ctx, start.Unit, target))
}

func (s *Store) choose(ctx context.Context, start Start) (Copy, error) {
	state, err := s.State()
	if err != nil {
		return Copy{}, err
	}
	if start.Own {
		return s.Take(ctx, start.Program)
	}
	if version := start.Policy.Version(); version != "" {
		return s.exactly(ctx, start.Program, version, state)
	}
	if c, err := s.Get(state.Pinned); err == nil {
		return c, s.put(ctx, c, state)
	}
	current, err := s.Get(state.InUse)
	if err == nil && (!start.AtOnce || start.Policy == Pinned) {
		return current, nil
	}
	return s.installed(ctx, start.Program, current, state)
}

// installed puts the installed program into use. A held one is used only if nothing else is left.
func (s *Store) installed(ctx context.Context, program string, current Copy, state State) (Copy, error) {
	rest := current
	if rest.Name == "" {
		rest, _ = s.Get(state.Before)
	}
	var c Copy
	var err error
	if program != "" {
		c, err = s.Take(ctx, program)
	}
	if _, held := state.HeldBack(c.Name); rest.Name != "" && (c.Name == "" || held) {
		return rest, s.put(ctx, rest, state)
	}
	if c.Name == "" {
		return Copy{}, err
	}
	return c, s.put(ctx, c, state)
}

// exactly is a copy with that version, of those that are kept or of the installed program.
func (s *Store) exactly(ctx context.Context, program, version string, state State) (Copy, error) {
	if c, err := s.Get(state.InUse); err == nil && c.Version == version {
		return c, nil
	}
	if c, ok := s.Find(version); ok {
		return c, s.put(ctx, c, state)
	}
	if program == "" {
		return Copy{}, &MissingError{version}
	}
	c, err := s.Take(ctx, program)
	switch {
	case err == nil && c.Version == version:
		return c, s.put(ctx, c, state)
	case err != nil && s.versionOf(ctx, filepath.Dir(filepath.Dir(program)), program) == version:
		return Copy{}, err
	}
	return Copy{}, &MissingError{version}
}

// put makes c what is in use, unless it is.
func (s *Store) put(ctx context.Context, c Copy, state State) error {
	if state.InUse == c.Name {
		return nil
	}
	return s.Change(ctx, func(state *State) error { state.use(c.Name); return nil })
}

// Assign records for Chosen that the unit runs the copy called name; none if name is empty. If it ran another one
// before, copies that nothing uses any more go.
func (s *Store) Assign(ctx context.Context, unit, name string) error {
	link := filepath.Join(s.Runs, unit)
	before, _ := os.Readlink(link)
	if name == "" {
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	target := filepath.Join(s.Dir, name)
	temp := filepath.Join(s.Runs, newPrefix+unit)
	_ = os.Remove(temp)
	if err := errors.Join(os.Symlink(target, temp), os.Rename(temp, link)); err != nil {
		return err
	}
	if before == target {
		return nil
	}
	_, err := s.Prune(ctx)
	return err
}

// Chosen returns the copy that Choose has recorded for the unit; none if the unit runs the installed program. A
// *MissingError is that of Choose.
func (s *Store) Chosen(unit string) (c Copy, ok bool, err error) {
	name, ok := s.Of(unit)
	switch {
	case !ok:
		return Copy{}, false, nil
	case !ValidName(name):
		return Copy{}, false, &MissingError{name}
	}
	c, err = s.Get(name)
	return c, err == nil, err
}

package copies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Start is a start of a unit that runs codex.
type Start struct {
	Unit string
	// Program is the native program that is installed for the unit; empty if none is.
	Program string
	// Own says that the unit has another program than all units, by its own settings: no policy is about it.
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
func (s *Store) Choose(ctx context.Context, start Start) (c Copy, err error) {
	if err := makeDirs(s); err != nil {
		return Copy{}, err
	}
	const tries = 2 // another process may remove the copy, as an unused one, before it is recorded
	for range tries {
		if c, err = chooseOnce(ctx, s, start); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return c, err
}

func chooseOnce(ctx context.Context, s *Store, start Start) (Copy, error) {
	c, err := (&chooser{Store: s, start: start}).choose(ctx)
	target := c.Name
	var missing *MissingError
	if errors.As(err, &missing) {
		target = missing.Version
	}
	if start.Own && target != "" {
		return c, errors.Join(err, relink(ctx, s, start.Unit, s.Dir+ownMark+target))
	}
	return c, errors.Join(err, s.Assign(ctx, start.Unit, target))
}

// chooser makes the choice for one start.
type chooser struct {
	*Store
	start Start
	state State
}

func (c *chooser) choose(ctx context.Context) (Copy, error) {
	switch {
	case c.start.Own && c.start.Program == "":
		return Copy{}, nil
	case c.start.Own:
		return c.Take(ctx, c.start.Program)
	}
	c.state, _ = c.State() // an unreadable one is replaced
	if version := c.start.Policy.Version(); version != "" {
		return c.exactly(ctx, version)
	}
	if pinned, err := c.Get(c.state.Pinned); err == nil {
		return pinned, c.put(ctx, pinned)
	}
	current, err := c.Get(c.state.InUse)
	if err == nil && (!c.start.AtOnce || c.start.Policy == Pinned) {
		return current, nil
	}
	return c.installed(ctx, current)
}

// installed puts the installed program into use. A held one is used only if nothing else is left.
func (c *chooser) installed(ctx context.Context, current Copy) (Copy, error) {
	rest := current
	if rest.Name == "" {
		rest, _ = c.Get(c.state.Before)
	}
	var taken Copy
	var err error
	if c.start.Program != "" {
		taken, err = c.Take(ctx, c.start.Program)
	}
	if _, held := c.state.HeldBack(taken.Name); rest.Name != "" && (taken.Name == "" || held) {
		return rest, c.put(ctx, rest)
	}
	if taken.Name == "" {
		return Copy{}, err
	}
	return taken, c.put(ctx, taken)
}

// exactly is a copy with that version, of those that are kept or of the installed program.
func (c *chooser) exactly(ctx context.Context, version string) (Copy, error) {
	if current, err := c.Get(c.state.InUse); err == nil && current.Version == version {
		return current, nil
	}
	if kept, ok := c.Find(version); ok {
		return kept, c.put(ctx, kept)
	}
	program := c.start.Program
	if program == "" {
		return Copy{}, &MissingError{version}
	}
	taken, err := c.Take(ctx, program)
	switch {
	case err == nil && taken.Version == version:
		return taken, c.put(ctx, taken)
	case err != nil && versionOf(ctx, filepath.Dir(filepath.Dir(program)), program, c.Version) == version:
		return Copy{}, err
	}
	return Copy{}, &MissingError{version}
}

// put puts a copy into use, unless it is.
func (c *chooser) put(ctx context.Context, taken Copy) error {
	if c.state.InUse == taken.Name {
		return nil
	}
	return c.Change(ctx, func(state *State) error {
		if _, err := c.Get(taken.Name); err != nil { // see Use
			return err
		}
		state.use(taken.Name)
		return nil
	})
}

// ownMark stands before the name in the link of a unit with a program of its own.
const ownMark = "/./"

// Own reports whether the unit has a program of its own, so that no change of the copy in use is about it.
func Own(s *Store, unit string) bool {
	target, _ := os.Readlink(filepath.Join(s.Runs, unit))
	return strings.HasPrefix(target, s.Dir+ownMark)
}

// Assign records for Chosen that the unit runs the copy called name; none if name is empty. The copy has to be whole.
// If the unit ran another one before, copies that nothing uses any more go, unless s is confined.
func (s *Store) Assign(ctx context.Context, unit, name string) error {
	if name != "" {
		return relink(ctx, s, unit, filepath.Join(s.Dir, name))
	}
	if err := os.Remove(filepath.Join(s.Runs, unit)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func relink(ctx context.Context, s *Store, unit, target string) error {
	link := filepath.Join(s.Runs, unit)
	if before, _ := os.Readlink(link); before == target {
		return point(link, target)
	}
	unlock, err := s.lock(ctx) // from here on Prune finds the copy, and then the link
	if err != nil {
		return err
	}
	defer unlock()
	if name := filepath.Base(target); ValidName(name) {
		if _, err := s.Get(name); err != nil {
			return err
		}
	}
	if err := point(link, target); err != nil || s.Confined { // which does not see the processes of other users
		return err
	}
	_, err = prune(s)
	return err
}

// point makes a link to the target, in place of another one.
func point(link, target string) error {
	temp := filepath.Join(filepath.Dir(link), newPrefix+filepath.Base(link))
	_ = os.Remove(temp)
	return errors.Join(os.Symlink(target, temp), os.Rename(temp, link))
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

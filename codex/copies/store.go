// Package copies keeps a copy of each codex that units run, so that an installation of another one changes nothing
// under a running process, and the record of which copy the starts of units take.
package copies

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/paths"
)

// Store is a directory of root with one directory for each copy, NAME = VERSION-HASH, and the state. All users may
// read it. Root alone calls the methods that change it.
//
// It is not in the state directory of codex-proxy.service: the user of the daemon owns that and could rename its
// entries, and the units of remotes hide it.
type Store struct {
	Dir  string // of the copies
	Runs string // has a link to a copy for each unit, until the next boot
	// Version asks a program that names its version in no file. It runs it, and not as root. nil: the version is
	// unknown.
	Version func(ctx context.Context, program string) (string, error)
	// Confined says that all file systems are read-only for this process alone (ProtectSystem=strict), and that it does
	// not see the programs of other users (ProtectProc=invisible, systemd.exec(5)).
	Confined bool

	owner int // of the copies
}

// Open returns the store of this machine.
func Open() *Store { return &Store{Dir: paths.CodexCopies, Runs: paths.CodexRuns} }

// At is a store in other directories, whose copies belong to our user.
func At(dir, runs string) *Store { return &Store{Dir: dir, Runs: runs, owner: os.Geteuid()} }

// Copy is one codex of the store.
type Copy struct {
	Version string    `json:"version"`
	Hash    string    `json:"hash"` // SHA-256 of the program
	Size    int64     `json:"size"` // of the program
	Source  string    `json:"source"`
	File    string    `json:"file"` // the identity of the program at Source
	Taken   time.Time `json:"taken"`
	// Name is the name of the directory, and Program the native program in it. Its resources are where it looks for
	// them.
	Name    string `json:"-"`
	Program string `json:"-"`
}

const (
	recordFile = "copy.json"
	// hashDigits of the hash are in a name.
	hashDigits = 12
	unknown    = "unknown"
)

// name is the form of the names of copies.
var name = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z.-]{0,63}-[0-9a-f]{12}$`)

// ValidName reports whether a copy may have the name.
func ValidName(text string) bool { return name.MatchString(text) }

func nameOf(version, hash string) string { return version + "-" + hash[:hashDigits] }

// versionIn is the version in a name.
func versionIn(name string) string { return name[:max(0, len(name)-1-hashDigits)] }

// List returns the whole copies, the newest first.
func (s *Store) List() ([]Copy, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the copies of codex: %w", err)
	}
	var list []Copy
	for _, entry := range entries {
		if c, err := s.Get(entry.Name()); err == nil {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b Copy) int { return b.Taken.Compare(a.Taken) })
	return list, nil
}

// Get returns the copy called name, if it is whole: nobody but root may have changed it, and the program has its size.
func (s *Store) Get(name string) (Copy, error) {
	if !ValidName(name) {
		return Copy{}, fmt.Errorf("%q is not the name of a copy of codex: want VERSION-HASH", name)
	}
	dir := filepath.Join(s.Dir, name)
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Copy{}, fmt.Errorf("there is no copy %s: %w", name, err)
	}
	c := Copy{Name: name, Program: filepath.Join(dir, "bin/codex")}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil && (!validHash(c.Hash) || nameOf(c.Version, c.Hash) != name) {
		err = errors.New("its record is of another one")
	}
	for _, path := range []string{dir, filepath.Dir(c.Program), c.Program} {
		if err == nil {
			err = ours(path, s.owner)
		}
	}
	if err == nil {
		err = sized(c.Program, c.Size)
	}
	if err != nil {
		return Copy{}, fmt.Errorf("the copy %s is damaged: %w", name, err)
	}
	return c, nil
}

// Check compares the whole program of the copy with its hash.
func (c Copy) Check() error {
	hash, err := hashOf(c.Program)
	if err == nil && hash != c.Hash {
		err = errors.New("its bytes have changed since it was taken")
	}
	if err != nil {
		return fmt.Errorf("the copy %s is damaged: %w", c.Name, err)
	}
	return nil
}

// Find returns the newest copy with that version or name.
func (s *Store) Find(text string) (Copy, bool) {
	list, _ := s.List()
	i := slices.IndexFunc(list, func(c Copy) bool { return c.Name == text || c.Version == text })
	if i < 0 {
		return Copy{}, false
	}
	return list[i], true
}

// Of returns the copy that the last start of a unit took; false if it took none.
func (s *Store) Of(unit string) (name string, ok bool) {
	target, err := os.Readlink(filepath.Join(s.Runs, unit))
	return filepath.Base(target), err == nil
}

func sized(program string, size int64) error {
	info, err := os.Lstat(program)
	if err == nil && (!info.Mode().IsRegular() || info.Size() != size) {
		err = fmt.Errorf("%s has not %d bytes", program, size)
	}
	return err
}

// validHash reports whether a text is a SHA-256.
func validHash(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 32
}

package copies

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
)

// Installed is the knowledge about the program that is installed.
type Installed struct {
	File    string `json:"-"` // the identity of the program: another installation has another one
	Program string `json:"program"`
	Version string `json:"version"`        // "unknown" if no file says so
	Copy    string `json:"copy,omitempty"` // the name of its copy, which may be gone; empty: it has none yet
	Held    *Held  `json:"held,omitempty"` // nil: it is not held back
}

// Installed looks a native program up, without reading or running it.
func (s *Store) Installed(program string) Installed {
	i := Installed{Program: program}
	if target, err := filepath.EvalSymlinks(program); err == nil {
		i.Program = target
	}
	c, known := s.known(i.Program)
	i.Copy = c.Name
	i.Version = cmp.Or(c.Version, versionOf(context.Background(), filepath.Dir(filepath.Dir(i.Program)), i.Program, nil))
	state, _ := s.State()
	i.File, _ = identity(i.Program)
	at := slices.IndexFunc(state.Held, func(h Held) bool {
		return known && h.Copy == c.Name || !known && h.Source == i.Program && h.File == i.File
	})
	if at >= 0 {
		i.Held, i.Copy = &state.Held[at], state.Held[at].Copy
		if i.Version == unknown { // the copy of a bare program had it in its name, and is gone
			i.Version = versionIn(i.Copy)
		}
	}
	return i
}

package sandbox

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Planned has the contents of a future sandbox, as far as a user of the host can see that.
type Planned struct {
	Path       string   // PATH
	Toolchains []string // a line for each

	OnHost string // PATH, by which a program of the host finds the same programs
	Closed bool   // the user cannot look at all of them
}

// Planned returns the contents of the future sandboxes of a user. home is the user's, if the user's own toolchains are
// shown; or else "". usual are the directories of PATH that units have.
func (s Settings) Planned(usual []string, home string) Planned {
	all, p := s.Wanted(), Planned{}
	if home != "" {
		all = append(all, OfUser(home, all)...)
	}
	var there []Toolchain
	for _, t := range all {
		line := t.Dir
		if t.Hidden() {
			line += ", seen as " + t.Seen
		}
		dir, err := t.Open()
		switch {
		case err == nil:
			_ = dir.Close()
			there = append(there, t)
		case t.User && errors.Is(err, fs.ErrNotExist):
			continue
		case t.Hidden() && errors.Is(err, fs.ErrPermission):
			p.Closed = true
			line += " (its programs are in PATH, too: only its owner and root can look there)"
		case t.Hidden() || errors.Is(err, fs.ErrNotExist):
			line = "not shown: " + err.Error()
		}
		p.Toolchains = append(p.Toolchains, line)
	}
	host := Programs{First: s.Path, Usual: strings.Join(usual, ":"), Toolchains: onHost(there)}
	seen := Programs{Toolchains: there}
	var path []string
	p.OnHost = host.Path()
	for _, dir := range filepath.SplitList(p.OnHost) {
		path = append(path, seen.Seen(dir))
	}
	p.Path = strings.Join(path, ":")
	return p
}

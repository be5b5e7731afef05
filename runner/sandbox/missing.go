package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Missing names the paths of the settings that the host does not have, each with its remedy, as far as this user can
// see that. at returns where a path of the host is.
func (s Settings) Missing(at func(path string) string) (faults []string) {
	for _, t := range s.Wanted() {
		t.Dir = at(t.Dir)
		dir, err := t.Open()
		if err == nil {
			_ = dir.Close()
			continue
		}
		if !errors.Is(err, fs.ErrPermission) && (t.Hidden() || errors.Is(err, fs.ErrNotExist)) {
			faults = append(faults, err.Error())
		}
	}
	for _, dir := range s.Path {
		if _, err := os.Stat(at(dir)); errors.Is(err, fs.ErrNotExist) {
			faults = append(faults,
				fmt.Sprintf("%s is not there: make it, or take it out of path of [sandbox] in runner.toml", dir))
		}
	}
	return faults
}

// onHost are toolchains as a program of the host sees them.
func onHost(all []Toolchain) (seen []Toolchain) {
	for _, t := range all {
		t.Seen = t.Dir
		seen = append(seen, t)
	}
	return seen
}

// OnHost is where programs of sandboxes are on the host, as PATH of a program there. usual is PATH of units.
func (s Settings) OnHost(usual string) string {
	return Programs{First: s.Path, Usual: usual, Toolchains: onHost(s.Wanted())}.Path()
}

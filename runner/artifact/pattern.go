// Package artifact keeps files that a command leaves in its workspace. The session writes them, one after the other,
// into an archive that it has inherited; the daemon reads that as untrusted input, and takes the content of each file
// from there.
package artifact

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Pattern names files of a workspace: the path of a file or a directory, relative to the workspace, with patterns of
// path.Match as elements. An element ** is any number of directories. A directory stands for all files below it.
type Pattern []string

// Parse reads a Pattern. The error has the fault and its remedy.
func Parse(text string) (Pattern, error) {
	p := Pattern(strings.Split(path.Clean(text), "/"))
	wide := 0
	for _, element := range p {
		if _, err := path.Match(element, ""); err != nil {
			return nil, fmt.Errorf("%.60q is no pattern: close its brackets, and escape them with \\", text)
		}
		if element == "**" {
			wide++
		}
	}
	switch {
	case text == "" || strings.ContainsRune(text, 0):
		return nil, errors.New("a pattern is empty or has a NUL byte: name files of the workspace")
	case path.IsAbs(text) || slices.Contains(p, ".."):
		return nil, fmt.Errorf("%.60q is no pattern of files in the workspace: leave out .. and the first /", text)
	case wide > 2:
		return nil, fmt.Errorf("%.60q has more than two **: one is any number of directories", text)
	}
	return p, nil
}

// Matches reports whether the pattern matches the file of that path, or a directory above it.
func (p Pattern) Matches(name string) bool { return p.match(strings.Split(name, "/")) }

// Reaches reports whether the pattern may match a file below the directory of that path.
func (p Pattern) Reaches(dir string) bool { return p.reach(strings.Split(dir, "/")) }

// match reports whether the pattern matches the path of these elements, or a directory above it.
func (p Pattern) match(elements []string) bool {
	if len(p) == 0 {
		return true
	}
	if p[0] == "**" {
		for i := range len(elements) + 1 {
			if p[1:].match(elements[i:]) {
				return true
			}
		}
		return false
	}
	if len(elements) == 0 {
		return p[0] == "." // the whole workspace
	}
	ok, _ := path.Match(p[0], elements[0])
	return ok && p[1:].match(elements[1:]) || p[0] == "."
}

// reach reports whether the pattern may match a file below the directory of these elements.
func (p Pattern) reach(elements []string) bool {
	if len(elements) == 0 || len(p) == 0 || p[0] == "**" || p[0] == "." {
		return true
	}
	ok, _ := path.Match(p[0], elements[0])
	return ok && p[1:].reach(elements[1:])
}

package main

import (
	"context"
	"path"
	"slices"
	"strings"
)

// change is what differs from a commit: the Go files that are there, and their directories.
type change struct {
	base        string
	files, dirs []string
}

// everything is in place of a change that is not known.
var everything = change{files: []string{"."}, dirs: []string{"./..."}}

// findChange compares the working tree with the commit where its branch left main. Without a difference, the change is
// the last commit.
func findChange(ctx context.Context) (change, error) {
	base, err := mainline(ctx)
	if err != nil {
		return change{}, err
	}
	names, err := changed(ctx, base)
	if err == nil && len(names) == 0 {
		if last, err := changed(ctx, "HEAD~1"); err == nil { // a shallow clone has none
			return newChange("HEAD~1", last), nil
		}
	}
	return newChange(base, names), err
}

func mainline(ctx context.Context) (base string, err error) {
	for _, name := range []string{"main", "origin/main"} {
		if base, err = output(ctx, "git", "merge-base", "HEAD", name); err == nil {
			return strings.TrimSpace(base), nil
		}
	}
	base, err = output(ctx, "git", "rev-parse", "HEAD")
	return strings.TrimSpace(base), err
}

// changed names the files that differ from a commit, and those that git does not have yet.
func changed(ctx context.Context, base string) ([]string, error) {
	differing, err := output(ctx, "git", "diff", "--name-only", "--diff-filter=d", base)
	if err != nil {
		return nil, err
	}
	added, err := output(ctx, "git", "ls-files", "--others", "--exclude-standard")
	return strings.Fields(differing + added), err
}

func newChange(base string, names []string) change {
	c := change{base: base}
	for _, n := range names {
		if path.Ext(n) == ".go" && !separate(n) {
			c.files, c.dirs = append(c.files, n), append(c.dirs, "./"+path.Dir(n))
		}
	}
	slices.Sort(c.dirs)
	c.dirs = slices.Compact(c.dirs)
	return c
}

// separate reports whether a file is of another module, which `make lint` looks at.
func separate(file string) bool {
	return strings.HasPrefix(file, "test/clients/") || strings.Contains(file, "/testdata/")
}

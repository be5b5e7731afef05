package patch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// check refuses a file that is not of the tree.
func check(f *File) error {
	for _, name := range []string{f.Old, f.New} {
		if name == "" {
			continue
		}
		if err := checkPath(f, name); err != nil {
			return err
		}
	}
	isLink, wasLink := f.NewMode == symlinkMode, f.OldMode == symlinkMode
	if f.Old != "" && f.New != "" && f.OldMode != "" && f.NewMode != "" && isLink != wasLink {
		return &Error{Reason: Malformed, File: f.Path(), Line: f.Line,
			Text:   "it turns a file into a symbolic link or back",
			Remedy: "make the patch with `git diff`, which removes the one and adds the other"}
	}
	if f.New == "" || !isLink {
		return nil
	}
	if f.Binary || isGitFile(f.New) {
		return &Error{Reason: Unsupported, File: f.New, Line: f.Line, Text: "it would be a symbolic link that git refuses",
			Remedy: "leave it out of the patch"}
	}
	if len(f.Hunks) > 0 {
		return checkNewTarget(f)
	}
	return nil
}

func checkPath(f *File, name string) error {
	parts := strings.Split(name, "/")
	switch {
	case strings.HasPrefix(name, "/") || slices.Contains(parts, ".."):
		return &Error{Reason: LeavesTree, File: name, Line: f.Line, Text: "it is outside of the tree",
			Remedy: "use paths inside the repository, without .."}
	case slices.ContainsFunc(parts, isGit):
		return &Error{Reason: TouchesGit, File: name, Line: f.Line, Text: "it belongs to git, not to the tree",
			Remedy: "leave .git out of the patch"}
	case strings.ContainsRune(name, 0) || slices.Contains(parts, "") || slices.Contains(parts, "."):
		return &Error{Reason: Malformed, File: name, Line: f.Line, Text: "it is no path that git writes",
			Remedy: "make the patch with `git diff`"}
	}
	return nil
}

// isGit is true of .git in any case, as for git.
func isGit(part string) bool { return strings.EqualFold(part, ".git") }

// isGitFile is true of files that git reads in a tree: git follows no link there (git-fsck(1), gitmodulesSymlink).
func isGitFile(name string) bool {
	base := strings.ToLower(path.Base(name))
	return slices.Contains([]string{".gitmodules", ".gitattributes", ".gitignore", ".mailmap"}, base)
}

// checkNewTarget checks a symbolic link if the patch has its target.
func checkNewTarget(f *File) error {
	h := f.Hunks[0]
	if len(f.Hunks) > 1 || h.NewLines != 1 || len(h.added) != 1 {
		return &Error{Reason: Malformed, File: f.New, Line: h.Line, Hunk: h.Header,
			Text: "a symbolic link has one line, its target", Remedy: "make the patch with `git diff`"}
	}
	return checkTarget(f, h.Line, h.added[0])
}

// checkTarget refuses a target that leads out of the tree. A .. is allowed at the beginning alone: behind the name of a
// link it would be the parent of the link's target.
func checkTarget(f *File, line int, target string) error {
	parts := strings.Split(target, "/")
	up := 0
	for up < len(parts) && parts[up] == ".." {
		up++
	}
	depth := strings.Count(f.New, "/")
	if !path.IsAbs(target) && up <= depth && !slices.Contains(parts[up:], "..") && !slices.ContainsFunc(parts, isGit) {
		return nil
	}
	return &Error{Reason: LinkLeaves, File: f.New, Line: line,
		Text:   fmt.Sprintf("it would be a symbolic link to %q, which is outside of the tree's files", target),
		Remedy: "link to a path inside the repository, relative to the link, with .. only at its beginning"}
}

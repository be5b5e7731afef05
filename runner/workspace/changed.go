package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Changed reports whether the work tree of a local repository has changes that HEAD does not have: new files too,
// unless the repository ignores them, but no files in Git LFS. A bare repository has none. It runs as a user that may
// read the repository, uses none of its configuration, which may name programs of another user (filters), and writes
// nothing there. Of submodules it looks at the commits alone.
func Changed(ctx context.Context, dir string) (bool, error) {
	g := git{dir: filepath.Join(dir, ".git")}
	head, err := g.run(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil {
		return false, nil //nolint:nilerr // no work tree, or no commit to compare it with
	}
	out, err := g.run(ctx, nil, "rev-parse", "--path-format=absolute", "--git-path", "index", "--git-path",
		"info/exclude")
	if err != nil {
		return false, err
	}
	index, exclude, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	common, err := gitDirOf(ctx, dir)
	if err != nil {
		return false, err
	}
	scratch, err := os.MkdirTemp("", "codex-runner-status-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	m := module{source: Source{Mirror: common, Commit: strings.TrimSpace(string(head))}, git: git{
		dir: scratch, tree: dir, env: []string{"GIT_INDEX_FILE=" + index, "GIT_OPTIONAL_LOCKS=0"},
	}}
	if err := m.writeGit(); err != nil {
		return false, err
	}
	ignored, err := os.ReadFile(exclude)
	if err == nil {
		err = os.WriteFile(filepath.Join(scratch, "info", "exclude"), ignored, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	out, err = m.git.run(ctx, nil, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal",
		"--ignore-submodules=dirty")
	if err != nil || len(out) == 0 {
		return false, err
	}
	return m.plain(ctx, out)
}

// plain reports whether a list of git status has a file that is not in Git LFS: without its filter, which this package
// does not run, each of those looks changed.
func (m module) plain(ctx context.Context, list []byte) (bool, error) {
	var names strings.Builder
	for entry := range records(list) {
		names.WriteString(entry[min(len("XY "), len(entry)):] + "\x00")
	}
	out, err := m.git.run(ctx, []byte(names.String()), "check-attr", "-z", "--stdin", "filter")
	all, lfs := strings.Count(names.String(), "\x00"), strings.Count(string(out), "\x00filter\x00lfs\x00")
	return all > lfs, err
}

// HasLFS reports whether a commit of a local repository has files in Git LFS, of which its workspace gets the pointers
// alone.
func HasLFS(ctx context.Context, from Local) bool {
	l, err := openLocal(ctx, from)
	if err != nil {
		return false
	}
	defer l.close()
	_, err = l.git.run(ctx, nil, "grep", "--quiet", "-e", "filter=lfs", from.Commit, "--", ":(glob)**/.gitattributes")
	return err == nil
}

package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Local is a commit of a local repository.
type Local struct {
	Dir     string // the work tree or git directory of the repository
	Commit  string
	Objects string // a directory with objects that the repository lacks, such as the commit; or ""
}

// local is a local repository as this package reads it: by a repository of its own that borrows the objects, so that
// nothing of the configuration of the other counts.
type local struct {
	module
	top     string   // the work tree or git directory
	common  string   // the git directory with the objects
	shallow []string // the commits whose parents are missing
}

// openLocal opens a local repository. The caller calls close.
func openLocal(ctx context.Context, from Local) (*local, error) {
	common, err := gitDirOf(ctx, from.Dir)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(common, "shallow"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "codex-runner-bundle-")
	if err != nil {
		return nil, err
	}
	l := &local{
		module: module{source: Source{Mirror: common, Commit: from.Commit}, git: git{dir: scratch}},
		top:    from.Dir, common: common, shallow: strings.Fields(string(list)),
	}
	if err = l.writeGit(); err == nil && from.Objects != "" {
		err = os.WriteFile(filepath.Join(scratch, "objects", "info", "alternates"),
			[]byte(filepath.Join(common, "objects")+"\n"+from.Objects+"\n"), 0o600)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *local) close() { _ = os.RemoveAll(l.git.dir) }

// tag is a tag of a commit, or another ref that a bundle has beside the commit.
type tag struct{ object, ref string }

// refs are the tags, and the refs of moduleRefs.
func (l *local) refs(ctx context.Context) ([]tag, error) {
	all, err := l.tags(ctx)
	if err != nil {
		return nil, err
	}
	modules, err := l.modules(ctx)
	return append(modules, all...), err
}

// modules returns someModules and a ref for each submodule of the commit that is checked out, or nothing if it has no
// submodules, or the repository is bare.
func (l *local) modules(ctx context.Context) (all []tag, err error) {
	if _, err := os.Stat(filepath.Join(l.top, ".git")); err != nil {
		return nil, nil //nolint:nilerr // it is bare
	}
	entries, err := l.git.entries(ctx, l.source.Commit)
	if err != nil {
		return nil, err
	}
	declared, err := declaredModules(ctx, l.git, entries)
	if err != nil || len(declared) == 0 {
		return nil, err
	}
	all = []tag{{l.source.Commit, someModules}}
	for _, m := range declared {
		if _, err := os.Stat(filepath.Join(l.top, m.Path, ".git")); err == nil && filepath.IsLocal(m.Path) {
			all = append(all, tag{l.source.Commit, moduleRef(m.Name)})
		}
	}
	slices.SortFunc(all, func(a, b tag) int { return strings.Compare(a.ref, b.ref) })
	return all, nil
}

// tags returns the tags, by their names. One that leads to no commit, or to none that is there, is left out.
func (l *local) tags(ctx context.Context) ([]tag, error) {
	all, err := refsOf(ctx, l.common, "refs/tags")
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var names strings.Builder
	for _, t := range all {
		names.WriteString(t.object + "^{commit}\n")
	}
	out, err := l.git.run(ctx, []byte(names.String()), "cat-file", "--batch-check=%(objecttype)")
	if err != nil {
		return nil, err
	}
	var there []tag
	kinds := strings.Split(string(out), "\n")
	for i, t := range all {
		if i < len(kinds) && kinds[i] == "commit" {
			there = append(there, t)
		}
	}
	return there, nil
}

// refsOf lists the refs of the git directory dir, by their names.
func refsOf(ctx context.Context, dir string, patterns ...string) (all []tag, err error) {
	args := append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, patterns...)
	out, err := git{dir: dir}.run(ctx, nil, args...)
	for line := range strings.Lines(string(out)) {
		if object, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all = append(all, tag{object, ref})
		}
	}
	return all, err
}

// digest names a list of refs; "" is the empty list. Of submodules, the name alone counts.
func digest(tags []tag) string {
	if len(tags) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, t := range tags {
		if strings.HasPrefix(t.ref, moduleRefs) {
			t.object = ""
		}
		_, _ = sum.Write([]byte(t.object + " " + t.ref + "\n"))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Tags names the tags of a mirror, and the submodules that its local repository has.
func Tags(ctx context.Context, mirror string) (string, error) {
	all, err := refsOf(ctx, mirror, moduleRefs, "refs/tags")
	return digest(all), err
}

// LocalTags is Tags for a bundle that WriteBundle would write of a commit.
func LocalTags(ctx context.Context, from Local) (string, error) {
	l, err := openLocal(ctx, from)
	if err != nil {
		return "", err
	}
	defer l.close()
	all, err := l.refs(ctx)
	return digest(all), err
}

// Boundary names the commits whose parents a local repository lacks, as it is shallow; "" if it is whole. Bundles of
// repositories with other boundaries do not go into the same mirror.
func Boundary(ctx context.Context, dir string) (string, error) {
	common, err := gitDirOf(ctx, dir)
	if err != nil {
		return "", err
	}
	list, err := os.ReadFile(filepath.Join(common, "shallow"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	sum := sha256.Sum256(list)
	return hex.EncodeToString(sum[:4]), err
}

// Top returns the top directory of the repository that has the directory dir: dir, if that is one, or the nearest above
// it. As git does, it takes none of another user that is above dir: its files could be meant to mislead.
func Top(dir string) (string, error) {
	for top := dir; ; top = filepath.Dir(top) {
		var st unix.Stat_t
		err := unix.Stat(filepath.Join(top, ".git"), &st)
		switch {
		case err == nil && top != dir && int(st.Uid) != os.Geteuid():
			return "", fmt.Errorf("the repository %s belongs to another user: name that directory, if it is meant", top)
		case err == nil:
			return top, nil
		case top == "/":
			return dir, nil // a bare repository, or none
		}
	}
}

package workspace

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// gitlink is git's mode for the commit of a submodule.
const gitlink = "160000"

// maxModules is how many repositories one workspace may have.
const maxModules = 256

// entry is a file of a commit.
type entry struct {
	gitMode, object string // as git ls-files -s has them
	path            string
}

// SubmoduleError is a submodule that cannot be checked out.
type SubmoduleError struct {
	Path string // in the workspace
	URL  string // of its repository, or "" if .gitmodules has none that can be used
	Err  error
}

func (e *SubmoduleError) Error() string { return fmt.Sprintf("submodule %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *SubmoduleError) Unwrap() error { return e.Err }

// Submodule is a repository that a commit refers to.
type Submodule struct {
	Name   string // its section of .gitmodules
	Path   string // below the repository that has it
	URL    string // absolute: a relative one is resolved against the URL of the repository that has it
	Commit string
}

// module is one repository of a workspace: the source, or a submodule of any depth.
type module struct {
	source  Source
	prefix  string // of its files in the tree: "" or a path that ends with a slash
	git     git
	entries []entry
}

// Submodules returns the submodules of the commit of a mirror, those without a URL left out, and of a local repository
// those that are not checked out there. The repository itself has
// the URL url. It takes no lock and may run during a fetch.
func Submodules(ctx context.Context, mirror, url, commit string) ([]Submodule, error) {
	g := git{dir: mirror}
	entries, err := g.entries(ctx, commit)
	if err != nil {
		return nil, err
	}
	return submodules(ctx, g, Source{Mirror: mirror, URL: url, Commit: commit}, entries)
}

// entries lists the files of a commit.
func (g git) entries(ctx context.Context, commit string) (all []entry, err error) {
	out, err := g.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", commit)
	for line := range records(out) {
		info, name, _ := strings.Cut(line, "\t")
		if f := strings.Fields(info); len(f) == 3 {
			all = append(all, entry{f[0], f[2], name})
		}
	}
	return all, err
}

// MayHaveFile reports whether a commit of a mirror has a file with such a name, or a submodule, which may have one.
func MayHaveFile(ctx context.Context, mirror, commit string, such func(name string) bool) (bool, error) {
	entries, err := git{dir: mirror}.entries(ctx, commit)
	return slices.ContainsFunc(entries, func(e entry) bool { return e.gitMode == gitlink || such(e.path) }), err
}

// submodules are the submodules that a workspace gets, with absolute URLs.
func submodules(ctx context.Context, g git, s Source, entries []entry) ([]Submodule, error) {
	declared, err := declaredModules(ctx, g, entries)
	if err != nil || len(declared) == 0 {
		return nil, err
	}
	wanted, err := wantedModules(ctx, s.Mirror)
	if err != nil {
		return nil, err
	}
	var all []Submodule
	for _, m := range declared {
		if !wanted(m.Name) {
			continue
		}
		if m.URL, err = resolve(s.URL, m.URL); err == nil {
			err = checkName(m.Name)
		}
		if err != nil {
			return nil, &SubmoduleError{Path: m.Path, Err: err}
		}
		all = append(all, m)
	}
	return all, nil
}

// declaredModules pairs the commits among the entries with the sections of .gitmodules, whose URLs may be relative. As
// in git, a commit without a section is an empty directory.
func declaredModules(ctx context.Context, g git, entries []entry) ([]Submodule, error) {
	commits, file := map[string]string{}, ""
	for _, e := range entries {
		switch {
		case e.gitMode == gitlink:
			commits[e.path] = e.object
		case e.path == ".gitmodules" && strings.HasPrefix(e.gitMode, "100"):
			file = e.object
		}
	}
	if len(commits) == 0 || file == "" {
		return nil, nil
	}
	out, err := g.run(ctx, nil, "config", "--blob", file, "--null", "--list")
	if err != nil {
		return nil, fmt.Errorf("cannot read .gitmodules: %w", err)
	}
	var all []Submodule
	for name, section := range sections(out) {
		m := Submodule{Name: name, Path: path.Clean(section["path"]), URL: section["url"]}
		if m.Commit = commits[m.Path]; m.Commit != "" && m.URL != "" {
			all = append(all, m)
		}
	}
	return all, nil
}

// moduleRefs begins the names of the refs by which a bundle has the names of the submodules, in hexadecimal digits,
// that are checked out in the local repository.
const moduleRefs = "refs/codex-runner/submodules/"

// someModules is the one of moduleRefs that says that the others are all.
const someModules = moduleRefs + "-"

func moduleRef(name string) string { return moduleRefs + hex.EncodeToString([]byte(name)) }

// wantedModules decides by the name of a submodule. Of the mirror of a local repository the submodules are wanted that
// are checked out there, as git leaves out those that the user has not initialised.
func wantedModules(ctx context.Context, mirror string) (func(name string) bool, error) {
	refs, err := refsOf(ctx, mirror, moduleRefs)
	names := map[string]bool{}
	for _, r := range refs {
		names[r.ref] = true
	}
	return func(name string) bool { return !names[someModules] || names[moduleRef(name)] }, err
}

// sections returns the values of .gitmodules by the names of its sections and their keys.
func sections(list []byte) map[string]map[string]string {
	all := map[string]map[string]string{}
	for line := range records(list) {
		key, value, _ := strings.Cut(line, "\n")
		name, ok := strings.CutPrefix(key, "submodule.")
		dot := strings.LastIndexByte(name, '.')
		if !ok || dot < 0 {
			continue
		}
		if all[name[:dot]] == nil {
			all[name[:dot]] = map[string]string{}
		}
		all[name[:dot]][name[dot+1:]] = value
	}
	return all
}

// checkName keeps the repository of a submodule inside of .git/modules: git refuses these names too (CVE-2018-11235).
func checkName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("its name %q in .gitmodules is no path inside of .git/modules: rename the section", name)
		}
	}
	return nil
}

// resolve returns the URL of a submodule as git submodule does: one that begins with ./ or ../ begins at the URL of the
// repository that has it.
func resolve(base, url string) (string, error) {
	if !strings.HasPrefix(url, "./") && !strings.HasPrefix(url, "../") {
		return url, CheckURL(url)
	}
	if base == "" {
		return "", fmt.Errorf("its URL %s is relative, and the repository has none: add a remote named origin", url)
	}
	base = strings.TrimSuffix(base, "/")
	for {
		if rest, ok := strings.CutPrefix(url, "./"); ok {
			url = rest
			continue
		}
		rest, ok := strings.CutPrefix(url, "../")
		if !ok {
			break
		}
		slash := strings.LastIndexAny(base, "/:")
		if slash < 0 || strings.HasSuffix(base[:slash+1], "//") {
			return "", fmt.Errorf("its relative URL leaves %s: correct .gitmodules", base)
		}
		url, base = rest, base[:slash]
	}
	url = base + "/" + url
	return url, CheckURL(url)
}

// records splits NUL-terminated output of git.
func records(out []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range bytes.SplitSeq(out, []byte{0}) {
			if len(line) > 0 && !yield(string(line)) {
				return
			}
		}
	}
}

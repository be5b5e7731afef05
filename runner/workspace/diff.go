package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Diff finds the changes that commands made in a tree since a session began there. It trusts nothing in the tree: it
// reads the files, and uses no repository but the mirror.
type Diff struct {
	Source        // the zero Source is an empty tree
	Tree   string // the workspace
	Patch  []byte // that was applied to the commit, or nil
}

// Differences describes the patches that Diff writes.
type Differences struct {
	Object []byte   // the commit, as git cat-file has it
	Begin  int64    // bytes of the first patch
	Nested []string // repositories that commands have made, which the patch leaves out
}

// notChanged are files that set-ups, interpreters and linters make in a tree, in addition to those that the repository
// ignores. As in .gitignore, one that git knows counts nevertheless.
const notChanged = ".venv\nnode_modules\n.bundle\nvendor/bundle\n*.egg-info\n__pycache__\n" +
	".eslintcache\n.stylelintcache\n"

// The bounds of new files in a tree.
const (
	maxNewFiles = 20_000
	maxNewBytes = 256 << 20
)

// Write writes the changes as a patch of git-apply(1), binary files too. It leaves out submodules, ignored files, and
// files of a set-up. With begin, a patch goes ahead that leads from the commit of the repository to the state in which
// the session began.
func (d Diff) Write(ctx context.Context, begin bool, to io.Writer) (all Differences, err error) {
	m, began, err := d.open(ctx)
	if err != nil {
		return all, err
	}
	defer os.RemoveAll(m.git.dir)
	if d.Commit != "" {
		if all.Object, err = m.git.run(ctx, nil, "cat-file", "commit", d.Commit); err != nil {
			return all, err
		}
	}
	counted := &counter{to: to}
	if begin {
		base, err := m.base(ctx, all.Object)
		if err == nil {
			err = m.patch(ctx, base, began, counted)
		}
		if err != nil {
			return all, err
		}
		all.Begin = counted.n
	}
	now, err := m.now(ctx, began, &all)
	if err == nil {
		err = m.patch(ctx, began, now, counted)
	}
	return all, err
}

// New returns the files that count as new, and repositories that commands have made, which end in a slash.
func (d Diff) New(ctx context.Context) ([]string, error) {
	m, _, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(m.git.dir)
	return others(ctx, m)
}

// open makes a repository for the diff, which the caller removes, and returns the tree in which the session began.
func (d Diff) open(ctx context.Context) (m module, began string, err error) {
	scratch, err := os.MkdirTemp("", "codex-runner-diff-")
	if err != nil {
		return m, "", err
	}
	m = module{source: d.Source, git: git{dir: scratch, tree: d.Tree, config: []string{"core.compression=0"}}}
	if err = m.openScratch(ctx); err == nil {
		began, err = m.began(ctx, d.Patch)
	}
	if err != nil {
		os.RemoveAll(scratch)
	}
	return m, began, err
}

// others are the files that the index has not, and that do not count as ignored.
func others(ctx context.Context, m module) ([]string, error) {
	out, err := m.git.run(ctx, nil, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	return slices.Collect(records(out)), nil
}

// openScratch makes a repository that borrows the objects of the mirror, if there is one.
func (m module) openScratch(ctx context.Context) error {
	if m.source.Commit != "" {
		if err := m.writeGit(); err != nil {
			return err
		}
	} else if _, err := (git{dir: m.git.dir}).run(ctx, nil, "init", "--quiet", "--bare",
		"--template="); err != nil {
		return err
	}
	info := filepath.Join(m.git.dir, "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "exclude"), []byte(notChanged), 0o600)
}

// began returns the tree in which the session began, and makes it the index.
func (m module) began(ctx context.Context, patch []byte) (string, error) {
	read := []string{"read-tree", "--empty"}
	if m.source.Commit != "" {
		read = []string{"read-tree", m.source.Commit}
	}
	if _, err := m.git.run(ctx, nil, read...); err != nil {
		return "", err
	}
	if len(patch) > 0 {
		apply := []string{"apply", "--cached", "-p1", "--whitespace=nowarn"}
		if _, err := m.git.run(ctx, patch, apply...); err != nil {
			// The commit may have had the change of the patch.
			if _, known := m.git.run(ctx, patch, append(apply, "--reverse", "--check")...); known != nil {
				return "", fmt.Errorf("cannot find the state in which the session began: %w", err)
			}
		}
	}
	return m.tree(ctx)
}

func (m module) tree(ctx context.Context) (string, error) {
	out, err := m.git.run(ctx, nil, "write-tree")
	return strings.TrimSpace(string(out)), err
}

// base returns the commit of the repository that the commit of the session leads to, or an empty tree.
func (m module) base(ctx context.Context, object []byte) (string, error) {
	if _, parent, snapshot := ParseCommit(object); object != nil && !snapshot {
		return m.source.Commit, nil
	} else if parent != "" {
		return parent, nil
	}
	out, err := m.git.run(ctx, nil, "hash-object", "-w", "-t", "tree", "--stdin")
	return strings.TrimSpace(string(out)), err
}

// now returns the tree of the files as they are.
func (m module) now(ctx context.Context, began string, all *Differences) (string, error) {
	if _, err := m.git.run(ctx, nil, "add", "--update"); err != nil {
		return "", err
	}
	unknown, err := others(ctx, m)
	if err != nil {
		return "", err
	}
	var names []string
	for _, name := range unknown {
		if strings.HasSuffix(name, "/") {
			all.Nested = append(all.Nested, name)
		} else {
			names = append(names, name)
		}
	}
	if err := m.boundNew(names); err != nil {
		return "", err
	}
	if len(names) > 0 {
		if _, err := m.git.run(ctx, []byte(strings.Join(names, "\x00")+"\x00"), "--literal-pathspecs", "add",
			"--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
			return "", err
		}
	}
	if err := m.keepPointers(ctx, began); err != nil {
		return "", err
	}
	return m.tree(ctx)
}

// boundNew refuses more new files than a patch of people has.
func (m module) boundNew(names []string) error {
	const remedy = "remove what is not part of the change, or name it in .gitignore"
	if len(names) > maxNewFiles {
		return fmt.Errorf("the commands have left %d new files, more than %d: %s", len(names), maxNewFiles, remedy)
	}
	var size int64
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(m.git.tree, name)); err == nil {
			size += info.Size()
		}
	}
	if size > maxNewBytes {
		return fmt.Errorf("the commands have left new files of %d bytes, more than %d: %s", size, maxNewBytes, remedy)
	}
	return nil
}

// patch writes the patch from one tree to another.
func (m module) patch(ctx context.Context, from, to string, w io.Writer) error {
	return m.git.pipe(ctx, nil, w, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
		"--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=all", from, to)
}

// counter counts the bytes that it passes on.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// keepPointers has a file of Git LFS count as its pointer, if a command has brought the content of just this pointer
// (git lfs pull).
func (m module) keepPointers(ctx context.Context, began string) error {
	out, err := m.git.run(ctx, nil, "diff-index", "--cached", "-r", "-z", "--no-renames", "--diff-filter=M", began)
	if err != nil || len(out) == 0 {
		return err
	}
	fields := bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0})
	var names, restored bytes.Buffer
	for i := 0; i+1 < len(fields); i += 2 {
		names.Write(append(fields[i+1], 0))
	}
	attributes, err := m.git.run(ctx, names.Bytes(), "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		change, name := bytes.Fields(fields[i]), string(fields[i+1])
		if len(change) != 5 || !bytes.Contains(attributes, []byte(name+"\x00filter\x00lfs\x00")) {
			continue
		}
		pointer, err := m.git.run(ctx, nil, "cat-file", "blob", string(change[2]))
		if err != nil {
			return err
		}
		if isPointerTo(pointer, filepath.Join(m.git.tree, name)) {
			fmt.Fprintf(&restored, "%s %s\t%s\x00", bytes.TrimPrefix(change[0], []byte(":")), change[2], name)
		}
	}
	if restored.Len() > 0 {
		_, err = m.git.run(ctx, restored.Bytes(), "update-index", "-z", "--index-info")
	}
	return err
}

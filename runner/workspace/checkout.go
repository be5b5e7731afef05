// Package workspace makes, resets and shares the checkouts of repositories that sessions work in, and keeps the mirrors
// of these repositories.
//
// A checkout belongs to the session that leases it, and whatever ran there may have left anything behind: hooks, a
// forged index, links, files that look unchanged to git, and processes of others that have files open. So a checkout
// that is used again trusts nothing in the tree. Checkout compares each file, byte by byte, with a record that no
// session can write, removes all else, makes a new .git, and lets git write the missing files. From the tree of another
// session it copies the files that are as recorded. The result is the same as a fresh clone.
//
// Mirror is the other side: a bare repository that is fetched with bounds of time and bytes. Pool decides which
// checkout a session gets, and which ones go.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoCommit reports that a mirror does not have the commit.
var ErrNoCommit = errors.New("the mirror does not have this commit: fetch the repository again")

// ErrNoMirror reports that a submodule has no mirror.
var ErrNoMirror = errors.New("its repository has no mirror: fetch it first")

// Source is a commit of a repository.
type Source struct {
	Mirror string // the directory of the bare repository; only read
	URL    string // where the mirror is from; relative URLs of submodules begin here
	Commit string // 40 or 64 hexadecimal digits
}

// Checkout makes a tree equal to a commit. It runs as the owner of the tree, while no other process uses it.
type Checkout struct {
	Source
	Tree   string   // an existing directory
	Record *os.File // the record of the last checkout, read and then replaced; empty at first
	// Previous is the tree of the record if that is not Tree, else nil. It is only read.
	Previous *os.File
	// Leave keeps files that neither the record nor the commit has: a set-up has added them.
	Leave   bool
	Mirrors func(url string) (string, error) // the mirror of a submodule, or ErrNoMirror
}

// Report has the counts of a checkout.
type Report struct {
	Kept, Written int   // files
	Removed       int   // files and whole directories that were not as the last checkout left them
	Recovered     error // why the tree was wiped and made anew; nil if it was not
}

// Run makes the tree. If that fails, it removes all of the tree and tries once more; a second failure is the error. It
// does not try again after ErrNoCommit, ErrDiskFull, a *SubmoduleError or the end of ctx.
func (c Checkout) Run(ctx context.Context) (Report, error) {
	top, err := openTop(c.Tree)
	if err != nil {
		return Report{}, err
	}
	defer top.Close()
	known, err := readRecord(c.Record)
	if err != nil {
		return Report{}, err
	}
	report, err := c.attempt(ctx, top, known)
	if err == nil || final(ctx, err) {
		return report, err
	}
	removed, wipeErr := wipe(top)
	if wipeErr != nil {
		return Report{}, fmt.Errorf("cannot clear the workspace: %w (after: %v)", wipeErr, err)
	}
	report, again := c.attempt(ctx, top, nil)
	report.Recovered, report.Removed = err, report.Removed+removed
	return report, again
}

func final(ctx context.Context, err error) bool {
	var submodule *SubmoduleError
	return ctx.Err() != nil || errors.Is(err, ErrNoCommit) || errors.Is(err, ErrDiskFull) || errors.As(err, &submodule)
}

// attempt keeps the files that known has.
func (c Checkout) attempt(ctx context.Context, top *os.Root, known record) (Report, error) {
	if err := newGit(top); err != nil {
		return Report{}, err
	}
	modules, err := c.modules(ctx)
	if err != nil {
		return Report{}, err
	}
	s := sweep{record: known, wanted: map[string]entry{}, dirs: map[string]bool{}}
	if c.Leave {
		s.left = map[string]bool{}
		for at := range known {
			above(s.left, at)
		}
	}
	for _, m := range modules {
		s.want(m)
	}
	if !known.sameAttributes(s.wanted) {
		s.record = known.without(c.Leave)
	}
	if err := s.run(top); err != nil {
		return Report{}, fmt.Errorf("cannot clear the workspace: %w", err)
	}
	if c.Previous != nil {
		if err := s.copyFrom(c.Previous, top); err != nil {
			return Report{}, fmt.Errorf("cannot copy a file of the workspace before: %w", err)
		}
	}
	for _, m := range modules {
		if err := m.checkOut(ctx, top, s.kept); err != nil {
			return Report{}, err
		}
	}
	if err := modules[0].uncommit(ctx); err != nil {
		return Report{}, err
	}
	report := Report{Kept: len(s.kept), Written: len(s.wanted) - len(s.kept), Removed: s.removed}
	now, err := recordOf(top, s.wanted, s.kept)
	if err != nil {
		return Report{}, err
	}
	return report, now.write(c.Record)
}

// want adds the files of a module, and the directories above them.
func (s *sweep) want(m module) {
	for _, e := range m.entries {
		at := m.prefix + e.path
		above(s.dirs, at)
		if e.gitMode == gitlink {
			s.dirs[at] = true
		} else {
			s.wanted[at] = entry{e.gitMode, e.object, at}
		}
	}
}

// newGit replaces .git, whatever it is, by an empty directory.
func newGit(top *os.Root) error {
	info, err := top.Lstat(".git")
	if err == nil {
		err = remove(top, ".git", info.IsDir())
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = top.Mkdir(".git", dirMode)
	}
	if err != nil {
		return fmt.Errorf("cannot make .git anew: %w", err)
	}
	return nil
}

// modules makes the repositories of the workspace and their indexes: the source first, and each repository before its
// submodules.
func (c Checkout) modules(ctx context.Context) ([]module, error) {
	all := []module{{source: c.Source, git: git{dir: filepath.Join(c.Tree, ".git"), tree: c.Tree}}}
	for i := 0; i < len(all); i++ {
		subs, err := all[i].load(ctx)
		if err != nil {
			return nil, all[i].blame(err)
		}
		for _, sub := range subs {
			prefix := all[i].prefix + sub.Path + "/"
			mirror, err := c.Mirrors(sub.URL)
			if err == nil && len(all) == maxModules {
				err = fmt.Errorf("the workspace has more than %d repositories: leave some out of .gitmodules",
					maxModules)
			}
			if err != nil {
				return nil, &SubmoduleError{Path: strings.TrimSuffix(prefix, "/"), URL: sub.URL, Err: err}
			}
			all = append(all, module{
				source: Source{Mirror: mirror, URL: sub.URL, Commit: sub.Commit}, prefix: prefix,
				git: git{dir: filepath.Join(all[i].git.dir, "modules", sub.Name), tree: filepath.Join(c.Tree, prefix)},
			})
		}
	}
	return all, nil
}

// blame names the submodule to which the error belongs.
func (m module) blame(err error) error {
	var submodule *SubmoduleError
	if m.prefix == "" || errors.As(err, &submodule) && submodule.URL != "" {
		return err
	}
	return &SubmoduleError{Path: strings.TrimSuffix(m.prefix, "/"), URL: m.source.URL, Err: err}
}

// load makes the repository of the module and its index, and returns its submodules.
func (m *module) load(ctx context.Context) ([]Submodule, error) {
	if err := m.writeGit(); err != nil {
		return nil, fmt.Errorf("cannot make .git anew: %w", err)
	}
	bare := git{dir: m.git.dir, tree: "/"} // its own work tree may not exist yet; these commands use none
	if _, err := bare.run(ctx, nil, "read-tree", m.source.Commit); err != nil {
		if _, missing := bare.run(ctx, nil, "cat-file", "-e", m.source.Commit+"^{commit}"); missing != nil &&
			ctx.Err() == nil {
			return nil, fmt.Errorf("%w: %s in %s", ErrNoCommit, m.source.Commit, m.source.Mirror)
		}
		return nil, err
	}
	out, err := bare.run(ctx, nil, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	for line := range records(out) {
		info, name, _ := strings.Cut(line, "\t")
		if f := strings.Fields(info); len(f) == 3 {
			m.entries = append(m.entries, entry{f[0], f[1], name})
		}
	}
	subs, err := submodules(ctx, bare, m.source, m.entries)
	if err != nil {
		return nil, err
	}
	return subs, m.activate(subs)
}

// checkOut writes the files of the module that were not kept.
func (m module) checkOut(ctx context.Context, top *os.Root, kept record) error {
	if m.prefix != "" {
		if err := m.linkGit(top); err != nil {
			return err
		}
	}
	var missing strings.Builder
	some := false
	for _, e := range m.entries {
		if _, ok := kept[m.prefix+e.path]; ok {
			some = true
		} else {
			missing.WriteString(e.path + "\x00")
		}
	}
	if missing.Len() > 0 {
		if _, err := m.git.run(ctx, []byte(missing.String()), "checkout-index", "-u", "-q", "-z",
			"--stdin"); err != nil {
			return m.orDiskFull(err)
		}
	}
	if !some {
		return nil
	}
	return m.refresh(ctx) // of the kept files
}

// orDiskFull adds the reason that git checkout-index leaves out: on a full disk it reports only "unable to write file".
func (m module) orDiskFull(err error) error {
	var fs unix.Statfs_t
	const little = 1 << 20
	if unix.Statfs(m.git.tree, &fs) == nil && (int64(fs.Bavail)*fs.Bsize < little || fs.Files > 0 && fs.Ffree == 0) {
		return fmt.Errorf("%w (%w)", ErrDiskFull, err)
	}
	return err
}

// linkGit makes the directory of a submodule, and there the file that names its repository.
func (m module) linkGit(top *os.Root) error {
	dir := strings.TrimSuffix(m.prefix, "/")
	if err := top.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	to, err := filepath.Rel(m.git.tree, m.git.dir)
	if err != nil {
		return err
	}
	return top.WriteFile(m.prefix+".git", []byte("gitdir: "+to+"\n"), 0o644)
}

// recordOf returns the record of all wanted files, of which git has just written those that were not kept.
func recordOf(top *os.Root, wanted map[string]entry, kept record) (record, error) {
	for at, e := range wanted {
		if _, ok := kept[at]; ok {
			continue
		}
		f, ok, err := look(top, at)
		if err != nil {
			return nil, fmt.Errorf("git did not write a file: %w", err)
		}
		if f.entry = e; ok {
			kept[at] = f
		}
	}
	return kept, nil
}

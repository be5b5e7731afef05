package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// bundled is the branch of a mirror that has the last commit of a local repository.
const bundled = "bundled"

// ErrNothingNew reports that the mirror has the commit and the tags already, so that there is nothing to send.
var ErrNothingNew = errors.New("the mirror has this commit and these tags")

// ErrPartial reports a local repository without all of its objects.
var ErrPartial = errors.New("the repository is a partial clone, which lacks a part of its objects: " +
	"run git fetch --refetch --no-filter")

// boundary begins the names of the refs by which a bundle of a shallow repository has the commits whose parents are
// missing (gitrepository-layout(5), shallow).
const boundary = "refs/codex-runner/shallow/"

// WriteBundle writes the history of a commit and of all tags of a local repository, and the names of the submodules
// that are checked out there, less the commits that the mirror has. It runs as a user that may read the repository,
// uses none of its configuration or hooks, and writes nothing there. FetchBundle reads the bundle. Of a shallow
// repository the bundle has the commits that are there. knownTags names the tags that the mirror has.
func WriteBundle(ctx context.Context, from Local, has []string, knownTags string, to io.Writer) error {
	l, err := openLocal(ctx, from)
	if err != nil {
		return err
	}
	defer l.close()
	tags, err := l.refs(ctx)
	if err != nil {
		return err
	}
	known, err := l.present(ctx, has)
	if err != nil {
		return err
	}
	if digest(tags) == knownTags {
		if fresh, err := l.fresh(ctx, known); err != nil || !fresh {
			return cmp.Or(err, ErrNothingNew)
		}
	}
	if _, err := io.WriteString(to, l.header(known, tags)); err != nil {
		return err
	}
	wanted := from.Commit + "\n"
	for _, t := range tags {
		wanted += t.object + "\n"
	}
	for _, k := range known {
		wanted += "^" + k + "\n"
	}
	err = l.git.pipe(ctx, []byte(wanted), to, "pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset",
		"--quiet")
	if failed, ok := errors.AsType[*GitError](err); ok && lacks(failed.Stderr) {
		return fmt.Errorf("%w (%v)", ErrPartial, err)
	}
	return err
}

// fresh reports whether the history of the commit has one that is not known.
func (l *local) fresh(ctx context.Context, known []string) (bool, error) {
	wanted := l.source.Commit + "\n"
	for _, k := range known {
		wanted += "^" + k + "\n"
	}
	out, err := l.git.run(ctx, []byte(wanted), "rev-list", "--max-count=1", "--stdin")
	return len(out) > 0, err
}

// lacks reports whether git has missed an object.
func lacks(stderr string) bool {
	return strings.Contains(stderr, "missing") || strings.Contains(stderr, "unable to read") ||
		strings.Contains(stderr, "bad object")
}

// header begins a bundle (gitformat-bundle(5)). git bundle create would leave out the tags of commits that are known.
func (l *local) header(known []string, tags []tag) string {
	var b strings.Builder
	if b.WriteString("# v2 git bundle\n"); len(l.source.Commit) == 64 {
		b.Reset()
		b.WriteString("# v3 git bundle\n@object-format=sha256\n")
	}
	for _, commit := range known {
		fmt.Fprintf(&b, "-%s \n", commit)
	}
	fmt.Fprintf(&b, "%s HEAD\n", l.source.Commit)
	for _, commit := range l.shallow {
		fmt.Fprintf(&b, "%s %s%[1]s\n", commit, boundary)
	}
	for _, t := range tags {
		fmt.Fprintf(&b, "%s %s\n", t.object, t.ref)
	}
	b.WriteString("\n")
	return b.String()
}

// present returns the commits that the repository has too.
func (m module) present(ctx context.Context, commits []string) ([]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	out, err := m.git.run(ctx, []byte(strings.Join(commits, "\n")+"\n"), "cat-file",
		"--batch-check=%(objecttype) %(objectname)")
	if err != nil {
		return nil, err
	}
	var known []string
	for line := range bytes.Lines(out) {
		if name, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("commit ")); ok {
			known = append(known, string(name))
		}
	}
	return known, nil
}

// gitDirOf returns the directory with the objects of a local repository; a linked work tree uses the main repository's.
func gitDirOf(ctx context.Context, dir string) (string, error) {
	g := git{dir: filepath.Join(dir, ".git")}
	if info, err := os.Stat(g.dir); err != nil {
		g.dir = dir
	} else if !info.IsDir() { // a linked work tree or a submodule: a file "gitdir: PATH"
		data, err := os.ReadFile(g.dir)
		if err != nil {
			return "", err
		}
		g.dir = strings.TrimSpace(strings.TrimPrefix(string(data), "gitdir: "))
		if !filepath.IsAbs(g.dir) {
			g.dir = filepath.Join(dir, g.dir)
		}
	}
	out, err := g.run(ctx, nil, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return "", fmt.Errorf("%s is no git repository that this user can read: name its top directory (%w)", dir, err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// Origin returns the URL of the remote origin of a local repository with the git directory dir, or "" if a service
// cannot fetch it: relative URLs of submodules begin there. It leaves out the user and the password of an HTTP URL,
// which may be a token: sessions see the URL.
func Origin(ctx context.Context, dir string) string {
	out, err := git{dir: dir}.run(ctx, nil, "config", "--get", "remote.origin.url")
	address := strings.TrimSpace(string(out))
	if u, parseErr := url.Parse(address); parseErr == nil && u.User != nil &&
		(u.Scheme == "https" || u.Scheme == "http") {
		u.User = nil
		address = u.String()
	}
	if err != nil || CheckURL(address) != nil || strings.HasPrefix(address, "file:") {
		return ""
	}
	return address
}

package workspace

import (
	"bytes"
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

// ErrNothingNew reports that the mirror has the commit already, so that there is nothing to send.
var ErrNothingNew = errors.New("the mirror has this commit")

// ErrShallow reports a local repository without its history.
var ErrShallow = errors.New("the repository is shallow or partial, so a part of its history is missing: run git fetch --unshallow")

// WriteBundle writes the history of a commit of the local repository that has the work tree or git directory dir, less
// the commits that the mirror has. It runs as a user that may read the repository, uses none of its configuration or
// hooks, and writes nothing there. FetchBundle reads the bundle.
func WriteBundle(ctx context.Context, dir, commit string, has []string, to io.Writer) error {
	common, err := gitDirOf(ctx, dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(common, "shallow")); err == nil {
		return ErrShallow
	}
	scratch, err := os.MkdirTemp("", "codex-runner-bundle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	m := module{source: Source{Mirror: common, Commit: commit}, git: git{dir: scratch}}
	if err := m.writeGit(); err != nil {
		return err
	}
	known, err := m.present(ctx, has)
	if err != nil {
		return err
	}
	err = m.git.pipe(ctx, nil, to, append([]string{"bundle", "create", "--quiet", "-", "HEAD"}, known...)...)
	var failed *GitError
	switch {
	case errors.As(err, &failed) && strings.Contains(failed.Stderr, "empty bundle"):
		return ErrNothingNew
	case errors.As(err, &failed) && strings.Contains(failed.Stderr, "missing"):
		return fmt.Errorf("%w (%v)", ErrShallow, err)
	}
	return err
}

// present returns the commits that the repository has too, each with a ^ before it.
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
			known = append(known, "^"+string(name))
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

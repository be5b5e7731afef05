package workspace

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const bound = time.Minute

// asOwner runs f as a user has rights who owns his files and is not root.
func asOwner(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err == nil {
			data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
			_ = unix.Capset(&header, &data[0])
		}
		f()
	}()
	<-done
}

func mountSmall(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

// TestPlanted has a session plant what it can in its tree. The next checkout is what a clone is, and nothing of it ran.
func TestPlanted(t *testing.T) {
	o := newOrigin(t)
	head := o.commit(map[string]string{"a": "one\n", "d/b": "two\n", "d/e/c": "three\n", "run": "#!/bin/sh\n", "l": "-> d",
		".gitattributes": "*.txt text\n", "t.txt": "text\n", ".gitignore": "*.ignored\n"})
	mirror := o.mirror()
	outside := t.TempDir()
	put(t, filepath.Join(outside, "theirs"), "precious")
	ran := filepath.Join(outside, "ran")
	evil := filepath.Join(outside, "evil")
	put(t, evil, "#!/bin/sh\n: >"+ran+"\ncat\n")
	git := func(t *testing.T, tree string, args ...string) { t.Helper(); origin{t, tree}.git(args...) }
	same := func(t *testing.T, file string, change func()) { // the times of the file stay
		t.Helper()
		info, err := os.Lstat(file)
		require.NoError(t, err)
		change()
		require.NoError(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	}
	for name, plant := range map[string]func(t *testing.T, tree string){
		"fsmonitor, filters, pager and hooks in .git/config": func(t *testing.T, tree string) {
			for _, c := range []string{"core.fsmonitor", "filter.x.smudge", "filter.x.clean", "filter.x.process", "core.sshCommand",
				"core.alternateRefsCommand", "uploadpack.packObjectsHook", "core.pager", "diff.external"} {
				git(t, tree, "config", c, evil)
			}
			put(t, filepath.Join(tree, ".gitattributes"), "* filter=x\n")
			put(t, filepath.Join(tree, ".git/info/attributes"), "* filter=x\n")
			put(t, filepath.Join(tree, ".git/hooks/post-checkout"), "#!/bin/sh\n: >"+ran)
			put(t, filepath.Join(tree, ".git/hooks/post-index-change"), "#!/bin/sh\n: >"+ran)
			put(t, filepath.Join(tree, ".git/hooks/reference-transaction"), "#!/bin/sh\n: >"+ran)
		},
		"another .git directory": func(t *testing.T, tree string) { link(t, filepath.Join(tree, ".git"), outside) },
		"a .git file":            func(t *testing.T, tree string) { replace(t, filepath.Join(tree, ".git"), "gitdir: "+outside) },
		"same size and times": func(t *testing.T, tree string) {
			f := filepath.Join(tree, "a")
			same(t, f, func() { put(t, f, "bad\n") })
		},
		"files of other commits": func(t *testing.T, tree string) {
			put(t, filepath.Join(tree, "a"), "1")
			git(t, tree, "commit", "-qam", "x")
		},
		"assume-unchanged": func(t *testing.T, tree string) {
			git(t, tree, "update-index", "--assume-unchanged", "a")
			put(t, filepath.Join(tree, "a"), "bad")
		},
		"skip-worktree": func(t *testing.T, tree string) {
			git(t, tree, "update-index", "--skip-worktree", "a")
			put(t, filepath.Join(tree, "a"), "bad")
		},
		"a forged index": func(t *testing.T, tree string) {
			put(t, filepath.Join(tree, "evil"), "bad")
			git(t, tree, "add", "-f", "evil")
		},
		"sparse checkout": func(t *testing.T, tree string) { git(t, tree, "sparse-checkout", "set", "--no-cone", "d") },
		"alternates":      func(t *testing.T, tree string) { put(t, filepath.Join(tree, ".git/objects/info/alternates"), outside) },
		"a replaced object": func(t *testing.T, tree string) {
			put(t, filepath.Join(tree, "a"), "x")
			git(t, tree, "commit", "-qam", "x")
			git(t, tree, "replace", "-f", head, "HEAD")
		},
		"an ignored file": func(t *testing.T, tree string) {
			put(t, filepath.Join(tree, "x.ignored"), "1")
			put(t, filepath.Join(tree, ".git/info/exclude"), "evil\n")
			put(t, filepath.Join(tree, "evil"), "1")
		},
		"nested repositories": func(t *testing.T, tree string) {
			git(t, tree, "init", "-q", "nested")
			git(t, tree, "init", "-q", "d/nested")
			git(t, tree, "init", "-q", "d")
		},
		"a directory as a link":    func(t *testing.T, tree string) { link(t, filepath.Join(tree, "d"), outside) },
		"a file as a link":         func(t *testing.T, tree string) { link(t, filepath.Join(tree, "a"), filepath.Join(outside, "theirs")) },
		"a link to somewhere else": func(t *testing.T, tree string) { link(t, filepath.Join(tree, "l"), outside) },
		"a new link out":           func(t *testing.T, tree string) { link(t, filepath.Join(tree, "d/out"), outside) },
		"a hard link": func(t *testing.T, tree string) {
			require.NoError(t, os.Link(filepath.Join(tree, "a"), filepath.Join(tree, "hard")))
		},
		"a file as a directory": func(t *testing.T, tree string) {
			require.NoError(t, os.Remove(filepath.Join(tree, "a")))
			put(t, filepath.Join(tree, "a/x"), "1")
		},
		"a directory as a file": func(t *testing.T, tree string) { replace(t, filepath.Join(tree, "d"), "x") },
		"directories that swapped": func(t *testing.T, tree string) {
			require.NoError(t, os.Rename(filepath.Join(tree, "d/e"), filepath.Join(tree, "e")))
		},
		"a pipe": func(t *testing.T, tree string) {
			pipe(t, filepath.Join(tree, "a"))
			pipe(t, filepath.Join(tree, "d/p"))
		},
		"a program": func(t *testing.T, tree string) {
			same(t, filepath.Join(tree, "a"), func() { require.NoError(t, os.Chmod(filepath.Join(tree, "a"), 0o755)) })
		},
		"set-user-ID": func(t *testing.T, tree string) { require.NoError(t, unix.Chmod(filepath.Join(tree, "run"), 0o4755)) },
		"line ends that git does not see": func(t *testing.T, tree string) {
			replace(t, filepath.Join(tree, "t.txt"), "text\r\n")
			git(t, tree, "add", "t.txt")
		},
		"attributes that hide a change": func(t *testing.T, tree string) {
			put(t, filepath.Join(tree, "d/.gitattributes"), "* ident eol=crlf\n")
			put(t, filepath.Join(tree, "d/b"), "two\r\n")
		},
		"times in the future": func(t *testing.T, tree string) {
			require.NoError(t, os.Chtimes(filepath.Join(tree, "a"), noon.AddDate(50, 0, 0), noon.AddDate(50, 0, 0)))
		},
		"an extended attribute": func(t *testing.T, tree string) {
			attribute(t, filepath.Join(tree, "a"))
			attribute(t, filepath.Join(tree, "d"))
		},
		"no permissions": func(t *testing.T, tree string) {
			put(t, filepath.Join(tree, "closed/x/y"), "1")
			for _, p := range []string{"a", "closed/x/y", "closed/x", "closed", "d/e", "d", ".git/objects", ".git", ""} {
				require.NoError(t, os.Chmod(filepath.Join(tree, p), 0))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := slot(t, Source{mirror, o.url(), head})
			s.must(t)
			plant(t, s.Tree)
			var r Report
			var err error
			asOwner(func() { r, err = s.Run(t.Context()) })
			require.NoError(t, err)
			assert.NoError(t, r.Recovered, "the sweep is enough")
			assert.NoFileExists(t, ran)
			s.sameAsClone(t)
			theirs, err := os.ReadFile(filepath.Join(outside, "theirs"))
			require.NoError(t, err)
			assert.Equal(t, "precious", string(theirs))
			hooks, err := filepath.Glob(filepath.Join(s.Tree, ".git/hooks/*"))
			require.NoError(t, err)
			assert.Empty(t, hooks)
		})
	}
}

// TestDeepDirectories has paths of 100 000 bytes and 5 000 directories in each other.
func TestDeepDirectories(t *testing.T) {
	o := newOrigin(t)
	s := slot(t, Source{Commit: o.commit(map[string]string{"a": "1"}), URL: o.url()})
	s.Mirror = o.mirror()
	s.must(t)
	dir, err := unix.Open(s.Tree, unix.O_PATH|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	for range 5000 {
		require.NoError(t, unix.Mkdirat(dir, "deep-and-deeper-still", 0o755))
		next, err := unix.Openat(dir, "deep-and-deeper-still", unix.O_PATH|unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(dir))
		dir = next
	}
	require.NoError(t, unix.Close(dir))
	assert.NoError(t, s.must(t).Recovered)
	s.sameAsClone(t)
}

// TestLinkOfTheCommit has a committed link out of the tree stay a link.
func TestLinkOfTheCommit(t *testing.T) {
	outside := t.TempDir()
	put(t, filepath.Join(outside, "theirs"), "precious")
	o := newOrigin(t)
	first := o.commit(map[string]string{"d": "-> " + outside})
	require.NoError(t, os.Remove(filepath.Join(o.dir, "d")))
	second := o.commit(map[string]string{"d/theirs": "mine"})
	s := slot(t, Source{o.mirror(), o.url(), first})
	s.must(t)
	s.Commit = second
	s.must(t)
	s.sameAsClone(t)
	theirs, err := os.ReadFile(filepath.Join(outside, "theirs"))
	require.NoError(t, err)
	assert.Equal(t, "precious", string(theirs))
}

func link(t *testing.T, at, to string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(at))
	require.NoError(t, os.Symlink(to, at))
}

func replace(t *testing.T, at, content string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(at))
	put(t, at, content)
}

func pipe(t *testing.T, at string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(at))
	require.NoError(t, unix.Mkfifo(at, 0o600))
}

func attribute(t *testing.T, at string) {
	t.Helper()
	if err := unix.Setxattr(at, "user.x", []byte("1"), 0); err == unix.ENOTSUP {
		t.Skip("this file system has no attributes of users")
	} else {
		require.NoError(t, err)
	}
}

// TestAttributesOfTheTop has a session give the top of its tree an access list and an attribute. Nothing of them is left for
// the next session, with a repository or without.
func TestAttributesOfTheTop(t *testing.T) {
	o := newOrigin(t)
	s := slot(t, Source{URL: o.url(), Commit: o.commit(map[string]string{"a": "1", "d/b": "2"})})
	s.Mirror = o.mirror()
	bare := t.TempDir()
	for tree, next := range map[string]func(){s.Tree: func() { s.must(t) }, bare: func() { require.NoError(t, Empty(bare)) }} {
		next()
		attribute(t, tree)
		for _, of := range []string{"access", "default"} {
			err := unix.Setxattr(tree, "system.posix_acl_"+of, accessList(65_000), 0)
			if err == unix.ENOTSUP {
				t.Skip("this file system has no access lists")
			}
			require.NoError(t, err)
		}
		next()
		for _, at := range []string{tree, filepath.Join(tree, ".git"), filepath.Join(tree, "a"), filepath.Join(tree, "d")} {
			file, err := os.Open(at)
			if errors.Is(err, fs.ErrNotExist) && tree == bare {
				continue
			}
			require.NoError(t, err)
			assert.False(t, hasAttributes(int(file.Fd())), at)
			require.NoError(t, file.Close())
		}
		info, err := os.Stat(tree)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(dirMode), info.Mode().Perm())
	}
}

// accessList is one that gives a user all rights, as the kernel has it (acl(5), posix_acl_xattr.h).
func accessList(user uint32) []byte {
	list := binary.LittleEndian.AppendUint32(nil, 2) // its version
	for _, entry := range []struct {
		tag, rights uint16
		id          uint32
	}{{0x01, 7, math.MaxUint32}, {0x02, 7, user}, {0x04, 5, math.MaxUint32}, {0x10, 7, math.MaxUint32}, {0x20, 5, math.MaxUint32}} {
		list = binary.LittleEndian.AppendUint16(list, entry.tag)
		list = binary.LittleEndian.AppendUint16(list, entry.rights)
		list = binary.LittleEndian.AppendUint32(list, entry.id)
	}
	return list
}

// TestEnvironmentIsNotRead has no git read what a caller's environment says.
func TestEnvironmentIsNotRead(t *testing.T) {
	o := newOrigin(t)
	s := slot(t, Source{URL: o.url(), Commit: o.commit(map[string]string{"a": "1"})})
	s.Mirror = o.mirror()
	ran := filepath.Join(t.TempDir(), "ran")
	for name, value := range map[string]string{
		"GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent/i", "GIT_OBJECT_DIRECTORY": "/nonexistent/o", "GIT_CONFIG_COUNT": "1",
		"GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": ": >" + ran, "GIT_TRACE": "1", "GIT_EXEC_PATH": "/nonexistent",
	} {
		t.Setenv(name, value)
	}
	s.must(t)
	assert.NoFileExists(t, ran)
	data, err := os.ReadFile(filepath.Join(s.Tree, "a"))
	require.NoError(t, err)
	assert.Equal(t, "1", strings.TrimSpace(string(data)))
}

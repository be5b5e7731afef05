package runner

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changes takes changes along that alice has not committed.
func (b repositoriesBed) changes() {
	b.t.Helper()
	b.MustRun(b.t, "runuser", "-u", "alice", "--", "sh", "-ec", `cd; export HOME=/home/alice
git init -q -b main dirty; cd dirty; echo '*.o' >.gitignore; for f in file gone same; do echo $f >$f; done; git add .; git commit -qm one`)
	const look = "cat file; git log --format=%s; git status --porcelain; ls"
	run := func(options ...string) string {
		return b.succeeds(append(append([]string{"run", "--repo=dirty"}, options...), "--", "sh", "-c", look)...)
	}
	clean := "file\none\nfile\ngone\nsame\n"
	assert.Equal(b.t, clean, run("--dirty"), "there are no changes")
	b.MustRun(b.t, "runuser", "-u", "alice", "--", "sh", "-ec", `cd ~alice/dirty; echo changed >file; rm gone; touch x.o; printf '\000' >binary`)
	before := b.MustRun(b.t, "sh", "-c", "cd /home/alice/dirty; find . -path ./.git/objects -prune -o -printf '%p %s %T@\n'; sha256sum .git/index")
	for range 2 { // the second one finds the commit there
		assert.Equal(b.t, "changed\none\n M file\n D gone\n?? binary\nbinary\nfile\nsame\n", run("--dirty"))
	}
	assert.Equal(b.t, clean, run(), "without a terminal the commit counts")
	assert.Equal(b.t, clean, run("--clean"))
	assert.Equal(b.t, before, b.MustRun(b.t, "sh", "-c", "cd /home/alice/dirty; find . -path ./.git/objects -prune -o -printf '%p %s %T@\n'; sha256sum .git/index"))

	// The settings of another user's repository name programs, which do not run as root.
	b.MustRun(b.t, "runuser", "-u", "alice", "--", "git", "-C", "/home/alice/dirty", "config", "core.fsmonitor", "touch /tmp/ran")
	_, stderr, err := b.Run(b.t.Context(), "codex-runner", "run", "--repo=/home/alice/dirty", "--dirty", "--", "true")
	assert.Error(b.t, err)
	assert.Contains(b.t, stderr, "it belongs to another user, whose settings would run programs as you")
	for _, option := range []string{"--apply", "--branch=theirs"} {
		_, stderr, err = b.Run(b.t.Context(), "codex-runner", "run", "--repo=/home/alice/dirty", option, "--", "true")
		assert.Error(b.t, err)
		assert.Contains(b.t, stderr, "it belongs to another user")
	}
	terminal := b.MustRun(b.t, "script", "--quiet", "--return", "--command", "codex-runner run --repo=/home/alice/dirty -- ls", "/dev/null")
	assert.Contains(b.t, terminal, "the command runs without them")
	b.MustRun(b.t, "test", "!", "-e", "/tmp/ran")
	terminal = b.MustRun(b.t, "runuser", "-u", "alice", "--", "script", "--quiet", "--return", "--command",
		"codex-runner run --repo=/home/alice/dirty -- ls", "/dev/null")
	assert.Contains(b.t, terminal, "with 3 changes that are not committed (--clean runs the commit alone)")
	assert.Contains(b.t, terminal, "binary")
	b.MustRun(b.t, "test", "!", "-e", "/tmp/ran")
	b.bringBack()
}

// bringBack takes the changes of commands into alice's repository: to its files, as a patch, and as a branch.
func (b repositoriesBed) bringBack() {
	b.t.Helper()
	const dirty = "--repo=dirty"
	alice := func(script string) string {
		return b.MustRun(b.t, "runuser", "-u", "alice", "--", "env", "HOME=/home/alice", "sh", "-ec", "cd ~/dirty; "+script)
	}
	alice("git config --unset core.fsmonitor")
	_, stderr, status := b.as("alice", "run", dirty, "--dirty", "--apply", "--", "sh", "-c", `echo more >>file; printf '\001' >>binary; rm same; mkdir .venv; touch .venv/x y.o`)
	require.Zero(b.t, status, stderr)
	assert.Contains(b.t, stderr, "3 files changed in /home/alice/dirty (git diff shows the changes)")
	assert.Equal(b.t, "changed\nmore\n0000000 000 001\n M file\n D gone\n D same\n?? binary\n", alice("cat file; od -b binary | head -1; git status --porcelain"))
	alice("test ! -e y.o && test ! -e .venv")

	_, stderr, status = b.as("alice", "run", dirty, "--dirty", "--branch=fix", "--", "sh", "-c", "echo last >>file")
	require.Zero(b.t, status, stderr)
	assert.Equal(b.t, "alice codex-runner: sh -c 'echo last >>file'\nalice Changes that were not committed\nalice one\n+last\n M file\n D gone\n D same\n?? binary\n",
		alice("git log --format='%an %s' fix; git diff fix~1 fix | grep ^+l; git status --porcelain"))
	b.refused("alice", "there is a branch fix: name another one, or remove it (git branch -D fix)", dirty, "--branch=fix", "--", "true")

	// Nothing is half applied, as when a directory may not be written.
	alice("mkdir locked; touch locked/file; git add locked; git commit -qm locked; chmod a-w locked")
	_, stderr, status = b.as("alice", "run", dirty, "--dirty", "--apply", "--", "sh", "-c", "echo x >>file; chmod u+w locked; echo y >locked/new")
	assert.Equal(b.t, 125, status)
	assert.Contains(b.t, stderr, "cannot write into /home/alice/dirty/locked: permission denied: make it writable")
	assert.Equal(b.t, "changed\nmore\n", alice("cat file; chmod u+w locked"))
	b.sessionDiff()
}

// sessionDiff prints changes: of a session that is closed, of one that began with a patch, of one with a secret, and
// of one without a repository. Neither hooks nor environments take part.
func (b repositoriesBed) sessionDiff() {
	b.t.Helper()
	newest := func() string { return strings.Fields(b.succeeds("sessions", "--limit=1"))[8] }
	assert.Contains(b.t, b.succeeds("diff", newest()), "\n+++ b/locked/new\n", "what was refused is kept")
	b.settings("[hooks]\nbefore = [\"/bin/sh\", \"-c\", \"echo hook\"]\n")
	require.NoError(b.t, b.WriteFile("/home/alice/patch", []byte("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"), 0o644))
	b.succeeds("run", "--keep", "--repo=app", "--ref=v1", "--patch=patch", "--", "sh", "-c", "echo sub >sub/b; echo click >requirements.txt")
	patch := b.succeeds("diff", newest())
	assert.True(b.t, strings.HasPrefix(patch, "diff --git a/requirements.txt b/requirements.txt\n"), patch)
	assert.NotContains(b.t, patch, "a/a")
	b.succeeds("cancel", newest())
	require.NoError(b.t, b.WriteFile("/home/alice/token", []byte("s3cret"), 0o644))
	b.succeeds("run", "--keep", "--secret=T=token", "--", "sh", "-c", "echo s3cret >file")
	_, stderr, status := b.as("alice", "diff", newest())
	assert.Equal(b.t, 1, status)
	assert.Contains(b.t, stderr, "a secret of it may be among them")
	b.succeeds("run", "--session="+newest(), "--", "sh", "-c", "echo public >file")
	assert.Contains(b.t, b.succeeds("diff", newest()), "+public\n")
	_, stderr, status = b.as("bob", "diff", newest())
	assert.Equal(b.t, 1, status)
	assert.Contains(b.t, stderr, "there is no such session")
	b.succeeds("cancel", newest())
	b.settings("")
}

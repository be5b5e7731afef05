package snapshot_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/snapshot"
)

// owner is a user of no name.
var owner = snapshot.Owner{UID: 61234, GID: 61235}

// made is a snapshot in a directory that every user can enter.
func made(t *testing.T) (c snapshot.Copy) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	top, err := os.MkdirTemp("/var/tmp", "codex-snapshot-") // overlays of overlays and of tmpfs have limits of their own
	require.NoError(t, err)
	require.NoError(t, os.Chmod(top, 0o755))
	c = snapshot.Copy{
		Snapshot: filepath.Join(top, "snapshot"), Changes: filepath.Join(top, "changes"), Work: filepath.Join(top, "work"),
		Target: filepath.Join(top, "target"), Owner: owner,
	}
	t.Cleanup(func() {
		require.NoError(t, snapshot.Unmount(c.Target))
		require.NoError(t, os.RemoveAll(top))
	})
	for _, dir := range []string{c.Snapshot, c.Changes, c.Target, c.Snapshot + "/dir"} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	require.NoError(t, os.Chown(c.Changes, owner.UID, owner.GID))
	require.NoError(t, os.WriteFile(c.Snapshot+"/dir/file", []byte("first\n"), 0o640))
	require.NoError(t, os.WriteFile(c.Snapshot+"/tool", []byte("#!/bin/sh\necho run\n"), 0o755))
	require.NoError(t, os.Symlink("dir/file", c.Snapshot+"/link"))
	old := time.Unix(1_700_000_000, 123)
	require.NoError(t, os.Chtimes(c.Snapshot+"/dir/file", old, old))
	return c
}

// session runs a script as the owner, in the copy.
func session(t *testing.T, c snapshot.Copy, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = c.Target
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(owner.UID), Gid: uint32(owner.GID)}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// use changes everything that the snapshot has.
const use = `stat -c '%u %g %a %Y %n' dir/file
./tool; cat link; echo more >>dir/file; mv dir moved; echo new >moved/new; rm tool; mkdir tool`

const used = "61234 61235 640 1700000000 dir/file\nrun\nfirst\n"

func TestOverlay(t *testing.T) {
	c := made(t)
	err := snapshot.Mount(c)
	if errors.Is(err, snapshot.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	assert.Equal(t, used, session(t, c, use))
	assertWhole(t, c)

	require.NoError(t, snapshot.Unmount(c.Target))
	require.NoError(t, snapshot.Unmount(c.Target), "twice")
	require.NoError(t, snapshot.Mount(c))
	assert.Equal(t, "first\nmore\nnew\n", session(t, c, "cat moved/file moved/new; test -d tool"), "the next command of the session")
	assertWhole(t, c)
}

func TestFiles(t *testing.T) {
	c := made(t)
	require.NoError(t, c.Files())
	assert.Equal(t, used, session(t, c, use))
	assertWhole(t, c)
}

// assertWhole asserts that the snapshot is as it was made.
func assertWhole(t *testing.T, c snapshot.Copy) {
	t.Helper()
	out, err := exec.Command("sh", "-ec", "cd "+c.Snapshot+"; cat dir/file; ls . dir; stat -c '%u %a' dir/file tool").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "first\n.:\ndir\nlink\ntool\n\ndir:\nfile\n0 640\n0 755\n", string(out))
}

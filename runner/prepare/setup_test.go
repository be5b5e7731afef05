package prepare

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/setup"
	"codex-proxy/runner/snapshot"
)

// setUpBed is a bed with a set-up that has ended; whatever is in dir, foreign code has made it.
type setUpBed struct {
	*bed
	key           string // of the snapshot
	instance, dir string
}

func newSetUpBed(t *testing.T) *setUpBed {
	t.Helper()
	b := &setUpBed{bed: newBed(t), key: strings.Repeat("ab", 32)}
	top := t.TempDir()
	b.PrivateStates, b.StateLinks = top+"/private", top
	order := setup.Build{Scope: setup.Scope{User: "1000", Repository: "0123456789abcdef"}, Commit: strings.Repeat("a", 40)}
	b.instance = paths.EnvironmentInstance(order.Key())
	b.dir = filepath.Join(b.environments(), paths.BuildDir(b.instance), paths.SnapshotPart)
	state := filepath.Join(b.PrivateStates, buildState, b.instance)
	require.NoError(t, os.MkdirAll(b.environments(), 0o700))
	require.NoError(t, os.MkdirAll(state, 0o755))
	require.NoError(t, os.Chown(state, user.uid, user.gid))
	require.NoError(t, os.MkdirAll(filepath.Join(b.StateDir, b.job()), 0o700))
	require.NoError(t, os.Chown(filepath.Join(b.StateDir, b.job()), daemon.uid, daemon.gid))
	text, err := json.Marshal(map[string]any{"version": 1, "set_up": order, "bytes": 1})
	require.NoError(t, err)
	b.write(filepath.Join(b.job(), paths.Order), string(text))
	b.setUp()
	return b
}

// setUp is a build whose set-up leaves some files.
func (b *setUpBed) setUp() {
	b.t.Helper()
	require.NoError(b.t, b.Build(b.t.Context(), b.instance, b.notifier))
	<-b.passed
	b.as(`cd ` + b.dir + `; echo made >workspace/made; echo cached >home/cached; echo files >record; printf key >left; ln -s made workspace/link
mkdir workspace/bin; echo tool >workspace/bin/tool; chmod 755 workspace/bin/tool`)
	b.result(`{"version":1,"key":"` + b.key + `","made":true}`)
}

func (b *setUpBed) job() string { return paths.EnvironmentDir(b.instance) }

// result is what the main process of the build writes.
func (b *setUpBed) result(text string) { b.write(filepath.Join(b.job(), paths.Result), text+"\n") }

// openWay lets every user enter a directory of a test, and those above it, but for the one of all tests.
func openWay(t *testing.T, dir string) {
	t.Helper()
	for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
}

// as runs a script as the user of the build, and of the session, and returns its output.
func (b *setUpBed) as(script string) string {
	b.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user.uid), Gid: uint32(user.gid)}}
	cmd.Dir = "/"
	openWay(b.t, b.StateLinks)
	openWay(b.t, b.environments())
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "%s", out)
	return string(out)
}

func (b *setUpBed) published() string {
	return filepath.Join(b.environments(), paths.SnapshotOwner("1000"), b.key)
}

func TestPublishOfASetUp(t *testing.T) {
	b := newSetUpBed(t)
	link, err := os.Readlink(filepath.Join(b.Sessions, paths.BuildDir(b.instance), paths.WorkspaceLink))
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(b.dir, paths.Checkout), link)
	require.NoError(t, unix.Mkfifo(b.dir+"/home/pipe", 0o666))
	require.NoError(t, unix.Mknod(b.dir+"/workspace/relay.sock", unix.S_IFSOCK|0o666, 0))
	require.NoError(t, os.Chmod(b.dir+"/workspace/bin/tool", 0o6755|os.ModeSetuid|os.ModeSetgid))
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	for name, mode := range map[string]os.FileMode{
		"": 0o755 | os.ModeDir, "/workspace/bin/tool": 0o755, "/home/cached": 0o644, "/record": 0o600,
		"/workspace/link": 0o777 | os.ModeSymlink, "/whole": 0o600,
	} {
		info, err := os.Lstat(b.published() + name)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), name)
		assert.Equal(t, owner{}, b.owner(b.published()+name), name)
	}
	for _, gone := range []string{
		b.published() + "/home/pipe", b.published() + "/workspace/relay.sock", filepath.Dir(b.dir),
		filepath.Join(b.Sessions, paths.BuildDir(b.instance)), b.note(),
	} {
		_, err := os.Lstat(gone)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

// Another build begins with a snapshot of its user, as its own files. A part of one is none.
func TestBuildThatBeginsWithASnapshot(t *testing.T) {
	b := newSetUpBed(t)
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	begin := func(user, from string) {
		t.Helper()
		order := setup.Build{Scope: setup.Scope{User: user, Repository: "0123456789abcdef"}, Commit: strings.Repeat("b", 40), From: from}
		b.instance = paths.EnvironmentInstance(order.Key())
		b.dir = filepath.Join(b.environments(), paths.BuildDir(b.instance), paths.SnapshotPart)
		state := filepath.Join(b.PrivateStates, buildState, b.instance)
		require.NoError(t, os.MkdirAll(state, 0o755))
		require.NoError(t, os.Chown(state, builder.uid, builder.gid))
		text, err := json.Marshal(map[string]any{"version": 1, "set_up": order, "bytes": 1})
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(b.StateDir, b.job()), 0o700))
		require.NoError(t, os.Chown(filepath.Join(b.StateDir, b.job()), daemon.uid, daemon.gid))
		b.write(filepath.Join(b.job(), paths.Order), string(text))
		require.NoError(t, b.Build(t.Context(), b.instance, b.notifier))
		<-b.passed
	}
	left := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(b.dir, paths.Left))
		require.NoError(t, err)
		return string(text)
	}
	begin("1000", b.key)
	assert.Equal(t, "key", left())
	for _, name := range []string{"workspace", "workspace/bin/tool", "workspace/link", "home/cached", "record", "left"} {
		assert.Equal(t, builder, b.owner(filepath.Join(b.dir, name)), name)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, paths.Record))
	require.NoError(t, err)
	assert.Equal(t, "files\n", string(text))

	begin("1001", b.key)
	assert.Empty(t, left(), "of another user")
	require.NoError(t, os.Remove(filepath.Join(b.published(), paths.Whole)))
	begin("1000", b.key)
	assert.Empty(t, left(), "not whole")
	require.NoError(t, os.WriteFile(filepath.Join(b.published(), paths.Whole), nil, 0o600))
	require.NoError(t, unix.Mkfifo(b.published()+"/home/pipe", 0o600))
	begin("1000", b.key)
	assert.Empty(t, left(), "it cannot be copied")
	entries, err := os.ReadDir(filepath.Join(b.dir, paths.Checkout))
	require.NoError(t, err)
	assert.Empty(t, entries)
}

// Files of a snapshot that is removed while it is copied are no beginning for a build: paths.Whole is removed first.
func TestSnapshotThatIsRemovedMeanwhile(t *testing.T) {
	b := newSetUpBed(t)
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	d, top := snapshotDir(b.published()), t.TempDir()
	place := func(name string) dir {
		for _, sub := range []string{paths.Checkout, paths.SetUpHome} {
			require.NoError(t, os.MkdirAll(filepath.Join(top, name, sub), 0o700))
		}
		part, err := openDir(filepath.Join(top, name))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, part.Close()) })
		return part
	}
	require.NoError(t, d.copyTo(place("whole"), builder))
	assert.FileExists(t, filepath.Join(top, "whole", paths.Left))
	require.NoError(t, os.Remove(filepath.Join(b.published(), paths.Whole)))
	require.ErrorIs(t, d.copyTo(place("part"), builder), os.ErrNotExist)
	assert.NoFileExists(t, filepath.Join(top, "part", paths.Left))
}

// builder is the user of another build.
var builder = owner{61240, 61241}

func (b *setUpBed) note() string { return buildUnit{b.Host, b.instance}.note() }

// Nothing of a set-up is kept that was not whole, or that would have root follow what its code has left.
func TestPublishOfWhatNoSetUpLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		plant  func(b *setUpBed) error
		result string // of systemd
		want   string
	}{
		"killed":      {func(*setUpBed) error { return nil }, "signal", ""},
		"no result":   {func(b *setUpBed) error { return os.Remove(filepath.Join(b.StateDir, b.job(), paths.Result)) }, "success", ""},
		"failed":      {func(b *setUpBed) error { b.result(`{"key":"` + b.key + `","made":true,"failure":{}}`); return nil }, "success", ""},
		"known":       {func(b *setUpBed) error { b.result(`{"key":"` + b.key + `"}`); return nil }, "success", ""},
		"a wrong key": {func(b *setUpBed) error { b.result(`{"key":"../x","made":true}`); return nil }, "success", "is no key"},
		"a link":      {func(b *setUpBed) error { return swap(b.dir, func() error { return os.Symlink("/etc", b.dir) }) }, "success", "symbolic"},
		"a linked dir": {func(b *setUpBed) error {
			return swap(b.dir+"/home", func() error { return os.Symlink("/etc", b.dir+"/home") })
		}, "success", "symbolic"},
		"no dir": {func(b *setUpBed) error { return os.RemoveAll(b.dir + "/workspace") }, "success", "no such file"},
		"a linked record": {func(b *setUpBed) error { return relink(b.dir+"/record", "/etc/passwd") },
			"success", "symbolic"},
		"a mark": {func(b *setUpBed) error { return os.Mkdir(b.dir+"/whole", 0o700) }, "success", "is a directory"},
		"a deep tree": {func(b *setUpBed) error { deepen(b.t, b.dir+"/home", maxDepth+1); return nil },
			"success", "inside each other"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSetUpBed(t)
			require.NoError(t, c.plant(b))
			err := b.Publish(b.instance, systemd(c.result))
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			_, err = os.Lstat(b.published())
			require.ErrorIs(t, err, os.ErrNotExist)
			assert.NoDirExists(t, filepath.Dir(b.dir), "nothing is left")
			assert.Equal(t, owner{}, b.owner("/etc"))
			assert.Equal(t, owner{}, b.owner("/etc/passwd"))
		})
	}
}

// A snapshot that is whole stays, as sessions may have it; one that is not is replaced.
func TestPublishTwice(t *testing.T) {
	b := newSetUpBed(t)
	require.NoError(t, os.MkdirAll(b.published()+"/workspace", 0o700))
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	require.NoError(t, os.WriteFile(b.published()+"/workspace/made", []byte("first\n"), 0o600))
	state := filepath.Join(b.PrivateStates, buildState, b.instance)
	require.NoError(t, os.MkdirAll(state, 0o755))
	require.NoError(t, os.Chown(state, user.uid, user.gid))
	b.setUp()
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	text, err := os.ReadFile(b.published() + "/workspace/made")
	require.NoError(t, err)
	assert.Equal(t, "first\n", string(text))
}

// lend prepares the first command of the session with the snapshot, and returns what it inherits.
func (b *setUpBed) lend() map[string]*os.File {
	b.t.Helper()
	text, err := session.Encode(&session.Spec{
		Version: session.Version, Args: []string{"true"}, Timeout: time.Minute, OutputLimit: 1, Slot: 3,
		Workspace: &session.Workspace{}, Environment: &session.Environment{
			Owner: "1000", Name: environment.Setup, Wait: time.Minute, Snapshot: &session.Snapshot{User: "1000", Key: b.key},
		},
	})
	require.NoError(b.t, err)
	b.write(paths.CommandDir(id, 1)+"/"+paths.Spec, string(text))
	require.NoError(b.t, b.Prepare(b.t.Context(), id, b.notifier))
	b.t.Cleanup(func() {
		for _, name := range []string{paths.Merged, paths.MergedHome} {
			assert.NoError(b.t, snapshot.Unmount(filepath.Join(b.Workspaces, "3", name)))
		}
	})
	return <-b.passed
}

// A session gets the files of a snapshot as its own. What it does to them is none of the snapshot's.
func TestSessionWithASnapshot(t *testing.T) {
	b := newSetUpBed(t)
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	files := b.lend()
	require.NotNil(t, files[paths.SnapshotFile])
	if files[paths.ChangesFile] == nil {
		t.Skip("this kernel or file system has no overlay with a mapped lower directory")
	}
	record := make([]byte, 10)
	n, _ := files[paths.RecordFile].ReadAt(record, 0)
	assert.Equal(t, "files\n", string(record[:n]))
	workspace, err := os.Readlink(filepath.Join(b.Sessions, id, paths.WorkspaceLink))
	require.NoError(t, err)
	home, err := os.Readlink(filepath.Join(b.Sessions, id, paths.HomeLink))
	require.NoError(t, err)
	for _, dir := range []string{workspace, home, b.Workspaces} {
		openWay(t, dir)
	}
	assert.Equal(t, "made\ncached\n", b.as(`cd `+workspace+`; cat link `+home+`/cached; echo mine >made; rm -r bin
echo mine >`+home+`/mine; chmod u+s made`))
	for name, want := range map[string]string{"/workspace/made": "made\n", "/workspace/bin/tool": "tool\n", "/home/cached": "cached\n"} {
		text, err := os.ReadFile(b.published() + name)
		require.NoError(t, err)
		assert.Equal(t, want, string(text), "of the snapshot")
	}
	require.NoError(t, b.End(id, systemd("success")))
	for _, dir := range []string{workspace, home} {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left, "it is mounted no more")
	}
	text, err := os.ReadFile(filepath.Join(b.Workspaces, paths.HomeDir(id), "mine"))
	require.NoError(t, err)
	assert.Equal(t, "mine\n", string(text))
	assert.NoDirExists(t, sessionFiles{sessionUnit{b.Host, id}}.homeWork())
}

// A session whose snapshot is damaged goes on without it.
func TestSessionWithADamagedSnapshot(t *testing.T) {
	for _, name := range []string{"", "/whole", "/home", "/workspace", "/record", "/left"} {
		b := newSetUpBed(t)
		require.NoError(t, b.Publish(b.instance, systemd("success")))
		require.NoError(t, os.RemoveAll(b.published()+name))
		files := b.lend()
		assert.Nil(t, files[paths.SnapshotFile])
		assert.Nil(t, files[paths.ChangesFile])
		link, err := os.Readlink(filepath.Join(b.Sessions, id, paths.WorkspaceLink))
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(b.Workspaces, "3", paths.Tree), link)
	}
}

// Where no directory can be mapped to another owner, a session gets a copy of each file.
func TestSessionWithACopyOfASnapshot(t *testing.T) {
	b := newSetUpBed(t)
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	b.OnHost = func(func() error) error { return snapshot.ErrUnsupported }
	files := b.lend()
	assert.NotNil(t, files[paths.SnapshotFile])
	assert.Nil(t, files[paths.ChangesFile], "all of its files count")
	tree, home := filepath.Join(b.Workspaces, "3", paths.Tree), filepath.Join(b.Workspaces, paths.HomeDir(id))
	for name, link := range map[string]string{paths.WorkspaceLink: tree, paths.HomeLink: home} {
		to, err := os.Readlink(filepath.Join(b.Sessions, id, name))
		require.NoError(t, err)
		assert.Equal(t, link, to)
	}
	for _, file := range []string{tree + "/bin/tool", tree + "/link", home + "/cached"} {
		assert.Equal(t, user, b.owner(file), file)
	}
}

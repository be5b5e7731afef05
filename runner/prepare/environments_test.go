package prepare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
)

// buildBed is a bed with a build that has ended; whatever is in dir, foreign code has made it.
type buildBed struct {
	*bed
	order         environment.Order
	instance, dir string
}

func newBuildBed(t *testing.T) *buildBed {
	t.Helper()
	b := &buildBed{bed: newBed(t), order: environment.Order{Owner: "1000", Provider: "venv"}}
	top := t.TempDir()
	b.PrivateStates, b.StateLinks = top+"/private", top
	b.instance = paths.EnvironmentInstance(b.order.Key())
	b.dir = filepath.Join(b.environments(), paths.BuildDir(b.instance), b.order.Key())
	state := filepath.Join(b.PrivateStates, buildState, b.instance)
	require.NoError(t, os.MkdirAll(state, 0o755))
	require.NoError(t, os.Chown(state, user.uid, user.gid))
	require.NoError(t, os.MkdirAll(b.environments(), 0o711))
	require.NoError(t, os.MkdirAll(b.dir+"x", 0o755), "of an earlier build")
	orders := filepath.Join(b.StateDir, paths.EnvironmentDir(b.instance))
	require.NoError(t, os.MkdirAll(orders, 0o700))
	require.NoError(t, os.Chown(orders, daemon.uid, daemon.gid))
	b.place(b.order)
	require.NoError(t, b.Build(t.Context(), b.instance, b.notifier))
	<-b.passed
	assert.NoDirExists(t, b.dir+"x")
	require.NoError(t, os.MkdirAll(b.dir+"/venv/bin", 0o755))
	require.NoError(t, os.WriteFile(b.dir+"/venv/bin/python", nil, 0o755))
	require.NoError(t, os.Symlink("/usr/bin/python3", b.dir+"/venv/link"))
	require.NoError(t, writeAs(user, b.dir+"/.ready", b.order.Key()+"\n"))
	require.NoError(t, os.Chown(b.dir, user.uid, user.gid))
	require.NoError(t, os.Chown(b.dir+"/venv", user.uid, user.gid))
	return b
}

// place writes the order of the daemon.
func (b *buildBed) place(order environment.Order) {
	b.t.Helper()
	text, err := json.Marshal(map[string]any{"version": 1, "order": order, "bytes": 1})
	require.NoError(b.t, err)
	b.write(filepath.Join(paths.EnvironmentDir(b.instance), paths.Order), string(text))
}

// result is the failure that the daemon reads, or "".
func (b *buildBed) result() string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.StateDir, paths.EnvironmentDir(b.instance), paths.Result))
	require.NoError(b.t, err)
	return string(text)
}

func (b *buildBed) published() string {
	return filepath.Join(b.environments(), b.order.Owner, b.order.Key())
}

func TestPublish(t *testing.T) {
	b := newBuildBed(t)
	// What the daemon writes later changes nothing.
	b.place(environment.Order{Owner: "1001", Provider: "venv"})
	require.NoError(t, b.Publish(b.instance, systemd("success")))
	assert.True(t, environment.Ready(b.published(), b.order.Key()))
	for _, name := range []string{"", "/venv", "/venv/bin/python", "/venv/link"} {
		assert.Equal(t, owner{}, b.owner(b.published()+name), name)
	}
	assert.NoDirExists(t, filepath.Dir(b.dir))
	assert.Empty(t, b.result())
	left, err := os.ReadDir(b.environments())
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

// Sessions see no part of a build that failed, and nothing that a process could listen on.
func TestPublishOfWhatSessionsMayNotHave(t *testing.T) {
	for name, c := range map[string]struct {
		plant  func(b *buildBed) error
		result string // of systemd
		want   string
	}{
		"killed":        {func(*buildBed) error { return nil }, "timeout", ""},
		"no mark":       {func(b *buildBed) error { return os.Remove(b.dir + "/.ready") }, "success", ""},
		"half a key":    {func(b *buildBed) error { return writeAs(user, b.dir+"/.ready", b.instance+"\n") }, "success", ""},
		"a link":        {func(b *buildBed) error { return swap(b.dir, func() error { return os.Symlink("/etc", b.dir) }) }, "success", ""},
		"a linked mark": {func(b *buildBed) error { return relink(b.dir+"/.ready", b.dir+"/venv/bin/python") }, "success", ""},
		"a pipe":        {func(b *buildBed) error { return unix.Mkfifo(b.dir+"/venv/pipe", 0o666) }, "success", "venv/pipe"},
		"a socket": {func(b *buildBed) error { return unix.Mknod(b.dir+"/relay.sock", unix.S_IFSOCK|0o666, 0) },
			"success", "relay.sock"},
		"a device":    {func(b *buildBed) error { return unix.Mknod(b.dir+"/null", unix.S_IFCHR|0o666, 0x103) }, "success", "null"},
		"a deep tree": {func(b *buildBed) error { deepen(b.t, b.dir, maxDepth+1); return nil }, "success", "inside each other"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuildBed(t)
			require.NoError(t, c.plant(b))
			err := b.Publish(b.instance, systemd(c.result))
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				assert.Contains(t, b.result(), c.want)
			}
			_, err = os.Lstat(b.published())
			require.ErrorIs(t, err, os.ErrNotExist)
			assert.NoDirExists(t, filepath.Dir(b.dir), "the next build begins anew")
			assert.Equal(t, owner{}, b.owner("/etc"))
		})
	}
}

func swap(dir string, put func() error) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return put()
}

func TestBuildsThatAreNone(t *testing.T) {
	b := newBuildBed(t)
	for _, instance := range []string{"", "..", strings.Repeat("0", 64)} {
		assert.ErrorContains(t, b.Build(t.Context(), instance, b.notifier), "is no build")
		assert.ErrorContains(t, b.Publish(instance, systemd("success")), "is no build")
	}
	b.place(environment.Order{Owner: "1001", Provider: "venv"})
	assert.ErrorContains(t, b.Build(t.Context(), b.instance, b.notifier), "it cannot be "+b.instance)
}

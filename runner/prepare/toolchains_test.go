package prepare

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/sandbox"
)

const alice = 61003

// newToolchains is a bed with alice, in a home that is closed to others, and the settings in lines of [sandbox].
func newToolchains(t *testing.T, settings string) (b *bed, home string) {
	t.Helper()
	b = newBed(t)
	top := filepath.Dir(b.StateDir)
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	home = top + "/home/alice"
	b.Settings, b.ToolchainMounts = top+"/runner.toml", b.Sessions+"/toolchains"
	require.NoError(t, os.WriteFile(b.Settings, []byte("[sandbox]\n"+strings.ReplaceAll(settings, "HOME", home)), 0o600))
	require.NoError(t, os.MkdirAll(b.Etc, 0o755))
	require.NoError(t, os.WriteFile(b.Etc+"/passwd", []byte("alice:x:61003:61003::"+home+":/bin/sh\n"), 0o644))
	for _, dir := range []string{"", "/.cargo", "/.cargo/bin", "/.local", "/.local/bin"} {
		require.NoError(t, os.MkdirAll(home+dir, 0o755))
		require.NoError(t, os.Chown(home+dir, alice, alice))
	}
	require.NoError(t, os.WriteFile(home+"/.cargo/bin/cargo", []byte("rust"), 0o755))
	require.NoError(t, os.Chmod(home, 0o700))
	return b, home
}

// host lends toolchains among mounts of its own, calls look with the place of the instance, and takes them back.
func (b *bed) host(uid int, look func(place string)) {
	b.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		b.OnHost = func(f func() error) error { return f() }
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = lender{b.Host}.lendToolchains(id, uid)
		}
		if err == nil {
			look(filepath.Join(b.ToolchainMounts, id))
			err = lender{b.Host}.takeBackToolchains(id)
		}
		done <- err
	}()
	require.NoError(b.t, <-done)
	assert.NoDirExists(b.t, filepath.Join(b.ToolchainMounts, id))
}

// listed are the toolchains of a list by the ends of their paths, with their faults.
func listed(t *testing.T, place string) map[string]string {
	t.Helper()
	all, err := sandbox.ReadList(place)
	assert.NoError(t, err)
	faults := map[string]string{}
	for _, one := range all {
		_, name, _ := strings.Cut(one.Dir, "/home/alice/")
		faults[name] = one.Fault
	}
	return faults
}

// A user sees what is there of the user's own, read-only. What others put at these paths is not shown, nor what is
// mounted inside.
func TestLendToolchains(t *testing.T) {
	b, home := newToolchains(t, "user_toolchains = true")
	require.NoError(t, os.Symlink("/root", home+"/.rustup"))
	require.NoError(t, os.MkdirAll(home+"/go/bin", 0o755)) // root's
	b.host(alice, func(place string) {
		assert.Equal(t, map[string]string{
			".cargo/bin": "", ".local/bin": "",
			".rustup": home + "/.rustup is or goes through a symbolic link: name the directory itself, and leave links out",
			"go/bin":  home + "/go/bin belongs to the user 0, and not to the one of the session: chown it",
		}, listed(t, place))
		text, err := os.ReadFile(place + home + "/.cargo/bin/cargo")
		assert.NoError(t, err)
		assert.Equal(t, "rust", string(text))
		assert.ErrorIs(t, os.WriteFile(place+home+"/.cargo/bin/more", nil, 0o600), unix.EROFS)
		assert.ErrorIs(t, os.RemoveAll(place+home+"/.cargo/bin/cargo"), unix.EROFS)
		assert.NoDirExists(t, place+home+"/.rustup/.")
		info, err := os.Stat(b.ToolchainMounts)
		assert.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "the home is closed to users of the host")
	})
	assert.FileExists(t, home+"/.cargo/bin/cargo")
	b.host(0, func(place string) { assert.NoDirExists(t, place, "root has none") })
	b.host(alice+1, func(place string) {
		assert.Contains(t, listed(t, place)[""], "the toolchains of the user 61004 are not shown: "+b.Etc+"/passwd: it has no line")
	})
}

// The settings decide, and not the daemon: by default no user has toolchains. Settings with a mistake show nothing, and
// say so.
func TestSettingsOfToolchains(t *testing.T) {
	b, _ := newToolchains(t, "")
	b.host(alice, func(place string) { assert.NoDirExists(t, place) })
	b, _ = newToolchains(t, `toolchains = ["/"]`)
	b.host(alice, func(place string) { assert.Contains(t, listed(t, place)[""], "(codex-runner doctor has the line)") })
	b, _ = newToolchains(t, `toolchains = ["/opt/codex-runner-test-gone"]`)
	b.host(alice, func(place string) {
		assert.Contains(t, listed(t, place)[""], "is not there: install the toolchain again")
	})
}

// A name inside of a toolchain leads to no other place of the host.
func TestToolchainInsideAnother(t *testing.T) {
	b, home := newToolchains(t, "")
	require.NoError(t, os.Symlink(t.TempDir(), home+"/.cargo/registry"))
	b.host(0, func(string) {
		place := t.TempDir()
		hidden := func(name string) sandbox.Toolchain {
			return sandbox.Toolchain{Dir: home + name, Seen: "/toolchains" + home + name}
		}
		assert.NoError(t, show(place, []sandbox.Toolchain{hidden("/.cargo"), hidden("/.cargo/bin")}, sandbox.Account{}))
		assert.Contains(t, listed(t, place)[".cargo/bin"], "invalid cross-device link")
		assert.NoError(t, takeBack(place))
	})
}

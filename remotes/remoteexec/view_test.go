package remoteexec

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tool sees neither the directories of other remotes nor what lies in /srv and /run, whenever that appears there.
func TestNeighbours(t *testing.T) {
	b := newBed(t, "")
	place := func(dir string) string {
		dir, err := os.MkdirTemp(dir, "neighbour")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		require.NoError(t, os.WriteFile(dir+"/file", []byte("SECRET"), 0o644))
		require.NoError(t, os.Chmod(dir, 0o755))
		return dir
	}
	two := place("/opt")
	require.NoError(t, os.Mkdir(b.dir+"/work/three", 0o755))
	require.NoError(t, os.WriteFile(b.dir+"/work/three/file", []byte("shared"), 0o644))
	for name, dir := range map[string]string{"two": two, "three": b.dir + "/work/three"} {
		b.write("etc/remotes/"+name+".toml", "directory = \""+dir+"\"\nmodel = \"m\"\n[provider]\nname = \"x\"\n"+
			"base_url = \"http://127.0.0.1:1\"\n")
	}
	b.write("etc/remotes/faulty.toml", "directory = 1")
	b.start()
	run := place("/run")
	l, err := net.Listen("unix", run+"/socket")
	require.NoError(t, err)
	defer l.Close()
	c := b.attach()
	for _, dir := range []string{two, place("/srv"), run} {
		assert.FileExists(t, dir+"/file")
		assert.Empty(t, c.shell(`cat "$1"/file "$1"/../*/file 2>/dev/null; ls "$1" 2>/dev/null`, dir), dir)
	}
	assert.Equal(t, "shared", c.shell("cat three/file"), "this remote was granted the directory that it lies in")
	assert.Empty(t, c.shell(`find /run -type s 2>/dev/null | grep -vE '^/run/systemd/(userdb|resolve)/'`))
}

// A remote without a network does not ask one through a daemon of the machine.
func TestNameservers(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	link, run := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "run")
	require.NoError(t, os.MkdirAll(run+"/resolver", 0o755))
	for _, c := range []struct {
		target  string
		want    []string
		because string
	}{
		{"missing", nil, "the link leads nowhere"},
		{"plain", nil, "it is visible as it is"},
		{"run/alone", []string{run + "/alone"}, "the directory has more than it"},
		{"run/resolver/stub", []string{run + "/resolver"}, "a service replaces the file in its directory"},
	} {
		if c.target != "missing" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.target), nil, 0o644))
		}
		require.NoError(t, os.Symlink(c.target, link))
		assert.Equal(t, c.want, nameservers(link, run), c.because)
		require.NoError(t, os.Remove(link))
	}
}

func TestHiddenProgram(t *testing.T) {
	b := newBed(t, "")
	b.write("etc/remotes/two.toml", "directory = \""+filepath.Dir(b.codex)+"\"\nmodel = \"m\"\n[provider]\nname = \"x\"\n"+
		"base_url = \"http://127.0.0.1:1\"\n")
	b.run()
	assert.Contains(t, b.until("Not started"), "codex_path: "+b.codex+" is in a directory that is hidden")
	<-b.ended
	assert.Equal(t, 78, b.cmd.ProcessState.ExitCode())
}

// What runs outside of the namespaces, or is trusted there, no tool may change; and no tool chooses by a link what the
// next start opens.
func TestToolsChangeNothingOutside(t *testing.T) {
	for name, c := range map[string]struct {
		keys string
		make func(b *bed)
		want string
	}{
		"program": {make: func(b *bed) { b.must("chown", fmt.Sprint(someone), filepath.Dir(b.codex)) },
			want: "codex_path: the user 45679, and so a tool, may write to "},
		"command": {keys: "[notify]\ncommand = [\"DIR/work/script\"]\n", make: func(b *bed) { b.write("work/script", "") },
			want: "notify.command: the user 45679, and so a tool, may write to "},
		"link": {keys: "writable = [\"DIR/work/more\"]\n", make: func(b *bed) {
			require.NoError(b.t, os.Symlink("/etc", b.dir+"/work/more"))
			require.NoError(b.t, os.Lchown(b.dir+"/work/more", someone, someone))
		}, want: "/work/more is a link that does not belong to root"},
		"link behind a link": {keys: "writable = [\"DIR/etc/link\"]\n", make: func(b *bed) {
			require.NoError(b.t, os.Symlink("../work/more/x", b.dir+"/etc/link"))
			require.NoError(b.t, os.Mkdir(b.dir+"/home/x", 0o777))
			require.NoError(b.t, os.Symlink("../home", b.dir+"/work/more"))
			require.NoError(b.t, os.Lchown(b.dir+"/work/more", someone, someone))
		}, want: "/work/more is a link that does not belong to root"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "")
			text, err := os.ReadFile(b.dir + "/etc/remotes/build.toml")
			require.NoError(t, err)
			table, tail := "", strings.ReplaceAll(c.keys, "DIR", b.dir)
			if !strings.HasPrefix(c.keys, "[") {
				table, tail = tail, ""
			}
			b.write("etc/remotes/build.toml", table+string(text)+tail)
			c.make(b)
			b.run()
			assert.Contains(t, b.until("Not started"), c.want)
			<-b.ended
			assert.Equal(t, 78, b.cmd.ProcessState.ExitCode())
		})
	}
}

// A link of root's, such as one that an operator has made, leads on.
func TestLinkOfTheOperator(t *testing.T) {
	b := newBed(t, "")
	text, err := os.ReadFile(b.dir + "/etc/remotes/build.toml")
	require.NoError(t, err)
	require.NoError(t, os.Symlink("work", b.dir+"/link"))
	b.write("etc/remotes/build.toml", strings.Replace(string(text), "/work\"", "/link\"", 1))
	b.start()
	assert.Equal(t, "ok", b.attach().shell("touch made && echo ok"))
	assert.FileExists(t, b.dir+"/work/made")
}

// What a tool makes of the configuration is gone with the next start: it cannot say that this is what was checked.
func TestConfigurationOfATool(t *testing.T) {
	b := newBed(t, "")
	b.start()
	good, err := os.ReadFile(b.dir + "/home/config.toml")
	require.NoError(t, err)
	mark, err := os.ReadFile(b.dir + "/home/keeper/.prepared.json")
	require.NoError(t, err)
	c := b.attach()
	assert.Contains(t, c.shell(`echo forged >"$1/home/keeper/.prepared.json"`, b.dir), "Read-only file system")
	assert.NotEmpty(t, c.shell(`mv "$1/home/keeper" "$1/home/other"`, b.dir))
	c.shell(`echo 'sandbox_mode = "danger-full-access"' >"$1/home/config.toml"`, b.dir)
	bad, err := os.ReadFile(b.dir + "/home/config.toml")
	require.NoError(t, err)
	require.NotEqual(t, string(good), string(bad))
	require.NoError(t, b.cmd.Process.Kill())
	<-b.ended
	require.NoError(t, b.notify.Close())
	require.NoError(t, os.Remove(b.dir+"/notify"))
	b.start()
	now, err := os.ReadFile(b.dir + "/home/config.toml")
	require.NoError(t, err)
	assert.Equal(t, string(good), string(now))
	again, err := os.ReadFile(b.dir + "/home/keeper/.prepared.json")
	require.NoError(t, err)
	assert.JSONEq(t, string(mark), string(again))
}

// Whatever a tool leaves in place of the files of the home, the remote starts again.
func TestHomeFullOfTraps(t *testing.T) {
	b := newBed(t, "")
	require.NoError(t, os.Symlink("/dev/zero", b.dir+"/home/config.toml"))
	require.NoError(t, os.MkdirAll(b.dir+"/home/model-catalogue.json/full", 0o700))
	require.NoError(t, os.Symlink("/etc/shadow", b.dir+"/home/auth.json"))
	for _, name := range []string{"config.toml", "model-catalogue.json", "model-catalogue.json/full"} {
		require.NoError(t, os.Lchown(b.dir+"/home/"+name, someone, someone))
	}
	b.start()
	assert.Equal(t, "ok", b.attach().shell("echo ok"))
}

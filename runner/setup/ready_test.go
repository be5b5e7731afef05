package setup

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/environment/environmenttest"
)

var debian = environment.Host{Path: "/usr/local/bin:/usr/bin:/bin"}

// tool returns a host with the tool that the variable names.
func tool(t *testing.T, variable string) environment.Host {
	t.Helper()
	return environment.Host{Path: filepath.Dir(environmenttest.Tool(t, variable)) + ":" + debian.Path}
}

// made is a checkout that was made ready.
type made struct {
	Order
	checkout, home string
	log, path      string
}

// ready makes a checkout ready with the packages of a store.
func ready(t *testing.T, host environment.Host, checkout, packages string) made {
	t.Helper()
	order, err := Plan(t.Context(), host, checkout, Source{Store: packages})
	require.NoError(t, err)
	require.NotNil(t, order.Script)
	m := made{Order: order, checkout: checkout, home: t.TempDir()}
	m.path = strings.Join(append(order.Script.SearchPath(checkout, m.home), host.Path), ":")
	args := order.Script.Args()
	cmd := exec.Command(args[0], args[1:]...)
	dir, err := order.Script.Directory(checkout)
	require.NoError(t, err)
	cmd.Dir, cmd.Env = filepath.Join(checkout, dir), m.environ()
	for name, value := range order.Variables() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	m.log = string(out)
	return m
}

func (m made) environ() []string {
	env := []string{"HOME=" + m.home, "PATH=" + m.path}
	for name, value := range m.Script.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// run runs a command as a session would.
func (m made) run(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-ec", command)
	cmd.Dir, cmd.Env = m.checkout, m.environ()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func TestVenv(t *testing.T) {
	packages := environmenttest.Wheel(t, "greet", "1.0")
	maps.Copy(packages, environmenttest.Wheel(t, "greet", "2.0"))
	m := ready(t, debian, environmenttest.Write(t, map[string]string{
		"requirements.txt": "# all\n-r more/base.txt\n-c limits.txt\n", "more/base.txt": "greet\n-c ../limits.txt\n", "limits.txt": "greet<2\n",
	}), environmenttest.Store(t, packages))
	assert.Equal(t, "greet 1.0", m.run(t, "greet"))
	assert.Equal(t, m.checkout+"/.venv", m.run(t, "python -c 'import sys; print(sys.prefix)'"))
}

func TestUV(t *testing.T) {
	host := tool(t, "CODEX_PROXY_TEST_UV")
	dir := environmenttest.Store(t, environmenttest.Wheel(t, "greet", "1.0"))
	const project = "[project]\nname = 'p'\nversion = '1'\nrequires-python = '>=3.9'\n[dependency-groups]\ntests = ['greet']\n"
	checkout := environmenttest.Write(t, map[string]string{"pyproject.toml": project, "requirements.txt": "other\n"})
	lock := exec.Command(filepath.Join(filepath.SplitList(host.Path)[0], "uv"), "lock", "--offline", "--no-index", "--find-links", dir, "--python", "/usr/bin/python3")
	lock.Dir, lock.Env = checkout, []string{"HOME=" + t.TempDir(), "PATH=/usr/bin", "UV_PYTHON_DOWNLOADS=never"}
	out, err := lock.CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := ready(t, host, checkout, dir)
	assert.Equal(t, "greet 1.0", m.run(t, "greet"), "of a group that is no default")
}

func TestConda(t *testing.T) {
	host := tool(t, "CODEX_PROXY_TEST_MICROMAMBA")
	pkg := condaPackage(t)
	record := map[string]any{"build": "0", "build_number": 0, "depends": []string{}, "name": "greet", "noarch": "generic", "subdir": "noarch", "version": "1.0",
		"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(pkg))), "size": len(pkg), "timestamp": 1700000000000}
	data, err := json.Marshal(map[string]any{"info": map[string]string{"subdir": "noarch"}, "packages": map[string]any{"greet-1.0-0.tar.bz2": record}, "packages.conda": map[string]any{}})
	require.NoError(t, err)
	dir := environmenttest.Store(t, map[string]string{"noarch/repodata.json": string(data), "noarch/greet-1.0-0.tar.bz2": pkg,
		"linux-64/repodata.json": `{"info":{"subdir":"linux-64"},"packages":{},"packages.conda":{}}`})
	m := ready(t, host, environmenttest.Write(t, map[string]string{"environment.yml": "name: x\ndependencies:\n  - greet\n"}), dir)
	assert.Equal(t, "greet 1.0", m.run(t, "greet"))
}

// condaPackage is a package of conda with a program; bzip2 is the compression of that format.
func condaPackage(t *testing.T) string {
	index := `{"build":"0","build_number":0,"depends":[],"name":"greet","noarch":"generic","subdir":"noarch","version":"1.0"}`
	dir := environmenttest.Write(t, map[string]string{"bin/greet": "#!/bin/sh\necho greet 1.0\n", "info/index.json": index, "info/files": "bin/greet\n",
		"info/paths.json": `{"paths":[{"_path":"bin/greet","path_type":"hardlink"}],"paths_version":1}`})
	require.NoError(t, os.Chmod(filepath.Join(dir, "bin/greet"), 0o755))
	out, err := exec.Command("/usr/bin/python3", "-c", `
import io, sys, tarfile
b = io.BytesIO()
with tarfile.open(fileobj=b, mode="w:bz2") as t: t.add(sys.argv[1], arcname="")
sys.stdout.buffer.write(b.getvalue())`, dir).Output()
	require.NoError(t, err)
	return string(out)
}

func TestNPM(t *testing.T) {
	pack := environmenttest.Tarball(t, map[string]string{"package/package.json": `{"name":"greet","version":"1.0.0","bin":"cli.js","main":"index.js","scripts":{"install":"echo built > built"}}`,
		"package/cli.js": "#!/usr/bin/env node\nconsole.log(require('.'))\n", "package/index.js": "module.exports = 'greet 1.0'\n"})
	sum := sha512.Sum512([]byte(pack))
	lock := `{"name":"p","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
		"":{"name":"p","version":"1.0.0","dependencies":{"greet":"1.0.0"}},
		"node_modules/greet":{"version":"1.0.0","resolved":"https://registry.npmjs.org/greet/-/greet-1.0.0.tgz","hasInstallScript":true,
			"integrity":"sha512-` + base64.StdEncoding.EncodeToString(sum[:]) + `","bin":{"greet":"cli.js"}}}}`
	m := ready(t, debian, environmenttest.Write(t, map[string]string{"package-lock.json": lock, "package.json": `{"name":"p","version":"1.0.0","dependencies":{"greet":"1.0.0"}}`,
		"use.mjs": "import g from 'greet'; console.log(g)\n"}), environmenttest.Store(t, map[string]string{"greet-1.0.0.tgz": pack}))
	assert.Equal(t, "greet 1.0", m.run(t, "greet"))
	assert.Equal(t, "greet 1.0", m.run(t, "node use.mjs"))
	assert.FileExists(t, m.checkout+"/node_modules/greet/built", "scripts of packages run")
	m.run(t, "npm ci --offline")
}

// own is a file like File with that script.
func own(run string) string { return "run = \"\"\"\n" + run + "\"\"\"\n" }

func TestOwnScript(t *testing.T) {
	checkout := environmenttest.Write(t, map[string]string{File: own("echo hello\necho $PWD $HOME $A >made\n") + "env = {A = 'a'}\ndir = 'sub'\npath = ['sub/bin']\n", "sub/x": ""})
	m := ready(t, debian, checkout, "")
	assert.Contains(t, m.log, "+ echo hello\nhello\n")
	assert.Equal(t, checkout+"/sub "+m.home+" a", m.run(t, "cat sub/made"))
	assert.Equal(t, checkout+"/sub/bin:"+debian.Path, m.path)

	m.Script.Dir = "link"
	require.NoError(t, os.Symlink("/etc", checkout+"/link"))
	_, err := m.Script.Directory(checkout)
	require.EqualError(t, err, `dir of the set-up is "link", which is no directory of the repository: it leads out of the repository`)
	m.Script.Dir = "none"
	_, err = m.Script.Directory(checkout)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A part whose programs the host lacks does nothing.
func TestPartsThatTheHostCannotDo(t *testing.T) {
	checkout := environmenttest.Write(t, map[string]string{"requirements.txt": "", "web/Gemfile": "", "web/go.mod": ""})
	tools := t.TempDir()
	require.NoError(t, os.WriteFile(tools+"/go", []byte("#!/bin/sh\necho 1\n"), 0o700))
	plan := func() Order {
		o, err := Plan(t.Context(), environment.Host{Path: tools}, checkout, Source{})
		require.NoError(t, err)
		return o
	}
	first := plan()
	assert.Contains(t, first.Script.Run, "# web/Gemfile: left out, as this host has no ruby: install the package ruby\n")
	assert.Contains(t, first.Script.Run, "go mod download")
	assert.Equal(t, []string{
		"The set-up left requirements.txt out: this host has no python3: install the package python3.",
		"The set-up left web/Gemfile out: this host has no ruby: install the package ruby.",
		"In runner.toml, path and toolchains of [sandbox] show sessions what the host has elsewhere; --env none leaves the set-up out.",
	}, first.LeftOut.Notes)
	assert.Equal(t, []string{"python3", "ruby"}, first.LeftOut.Programs)
	assert.False(t, Meets(environment.Host{Path: tools}, first.LeftOut.Programs))
	for _, name := range []string{"ruby", "bundle"} {
		require.NoError(t, os.WriteFile(tools+"/"+name, []byte("#!/bin/sh\necho 1\n"), 0o700))
	}
	assert.True(t, Meets(environment.Host{Path: tools}, first.LeftOut.Programs))
	assert.Equal(t, []string{"python3"}, plan().LeftOut.Programs)
	assert.NotEqual(t, first.Key(), plan().Key())
	require.NoError(t, os.Remove(tools+"/go"))
	require.NoError(t, os.Remove(tools+"/ruby"))
	none := plan()
	assert.True(t, none.Script.Idle())
	require.EqualError(t, none.LeftOut.All, "web/Gemfile needs what is not there: this host has no ruby: install the package ruby")
}

// A set-up that is given counts in place of the repository's own, and one with the same script has the same key.
func TestGivenScript(t *testing.T) {
	plan := func(given string, files ...string) Order {
		checkout := map[string]string{}
		for _, text := range files {
			checkout[File] = text
		}
		o, err := Plan(t.Context(), debian, environmenttest.Write(t, checkout), Source{Given: given})
		require.NoError(t, err)
		return o
	}
	assert.Equal(t, "echo given\n", plan(own("echo given\n"), own("echo own\n")).Script.Run)
	assert.Equal(t, plan(own("echo a\n")).Key(), plan("", own("echo a\n")).Key())
}

func TestMark(t *testing.T) {
	m := Mark(filepath.Join(t.TempDir(), "mark"))
	require.NoError(t, m.Remove(), "there is none")
	assert.False(t, m.Has("a"))
	require.NoError(t, m.Set("a"))
	assert.True(t, m.Has("a"))
	assert.False(t, m.Has("b"))
	require.NoError(t, m.Remove())
	assert.False(t, m.Has("a"))
}

func TestPlanErrors(t *testing.T) {
	empty := environment.Host{Path: t.TempDir()}
	plan := func(files map[string]string) error {
		t.Helper()
		o, err := Plan(t.Context(), empty, environmenttest.Write(t, files), Source{})
		require.NoError(t, err)
		return o.LeftOut.All
	}
	require.NoError(t, plan(nil), "no manifest is no script")
	for manifest, want := range map[string]string{
		"requirements.txt": "this host has no python3: install the package python3", "environment.yml": "this host has no micromamba: ",
		"go.mod": "this host has no go: install Go (https://go.dev/dl) into /usr/local/go", "pom.xml": "this host has no java: ",
	} {
		require.ErrorContains(t, plan(map[string]string{manifest: ""}), want)
	}
	checkout := t.TempDir()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(checkout, File)))
	_, err := Plan(t.Context(), debian, checkout, Source{})
	require.Error(t, err, "a link out of the repository")
	_, err = Plan(t.Context(), debian, environmenttest.Write(t, map[string]string{"requirements.txt": ""}), Source{Store: t.TempDir()})
	require.ErrorContains(t, err, "sha256sum")
}

// A build begins with a snapshot of the same user, repository and variables of the command alone: a script may have
// written their values into files.
func TestFamily(t *testing.T) {
	of := func(s Scope) Snapshot { return s.Named(Order{Architecture: "x"}) }
	base := of(Scope{User: "1", Repository: "r"})
	for _, other := range []Scope{
		{User: "2", Repository: "r"}, {User: "1", Repository: "q"}, {User: "1", Repository: "r", Online: true},
		{User: "1", Repository: "r", Env: map[string]string{"TOKEN": "a"}},
	} {
		assert.NotEqual(t, base.Family, of(other).Family)
	}
}

var longAgo = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// The key follows all that the outcome depends on, and nothing else.
func TestKey(t *testing.T) {
	checkout := environmenttest.Write(t, map[string]string{"requirements.txt": "greet\n", "a.py": ""})
	plan := func() Order {
		o, err := Plan(t.Context(), debian, checkout, Source{})
		require.NoError(t, err)
		return o
	}
	base := plan()
	require.NoError(t, os.Chtimes(filepath.Join(checkout, "requirements.txt"), longAgo, longAgo))
	require.NoError(t, os.WriteFile(filepath.Join(checkout, "a.py"), []byte("x"), 0o644))
	assert.Equal(t, base.Key(), plan().Key(), "a time, and a file that is no input")
	require.NoError(t, os.WriteFile(filepath.Join(checkout, "requirements.txt"), []byte("other\n"), 0o644))
	assert.NotEqual(t, base.Key(), plan().Key(), "an input")
	assert.Equal(t, base.Family(), plan().Family(), "an input")
	assert.Regexp(t, "^[0-9a-f]{64}$", base.Key())

	keys := map[string]string{base.Key(): "base"}
	for name, change := range map[string]func(o *Order){
		"architecture": func(o *Order) { o.Architecture = "mips" },
		"script":       func(o *Order) { o.Script = &Script{Run: "true"} },
		"tool": func(o *Order) {
			o.Tools = []environment.Tool{{Name: "python3", Path: "/usr/bin/python3.11", Version: "3.12", ABI: "cp311"}}
		},
		"path":        func(o *Order) { o.Inputs = []Input{{"ab", "1"}} },
		"digest":      func(o *Order) { o.Inputs = []Input{{"a", "b1"}} },
		"the network": func(o *Order) { o.Store = environment.Store{Dir: "/s"} },
	} {
		o := base
		change(&o)
		assert.Empty(t, keys[o.Key()], name)
		assert.Equal(t, name == "path" || name == "digest", o.Family() == base.Family(), name)
		keys[o.Key()] = name
	}
}

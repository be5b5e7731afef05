package environment

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"codex-proxy/runner/environment/environmenttest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var debian = Host{Path: "/usr/local/bin:/usr/bin:/bin"}

// tool returns a host with the tool that the variable names.
func tool(t *testing.T, variable string) Host {
	t.Helper()
	return Host{Path: filepath.Dir(environmenttest.Tool(t, variable)) + ":" + debian.Path}
}

// built makes the environment of a workspace.
func built(t *testing.T, host Host, workspace, name, packages string) (Order, string) {
	t.Helper()
	order, err := Plan(t.Context(), host, workspace, "1000", name, packages)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), order.Key())
	var log bytes.Buffer
	require.NoError(t, Build(t.Context(), host, order, dir, &log), "%s", &log)
	assert.True(t, Ready(dir, order.Key()))
	for _, m := range order.Manifests {
		assert.NoFileExists(t, filepath.Join(dir, "manifests", m.Path), "it may have the password of an index")
	}
	return order, dir
}

// output runs a program with the environment.
func output(t *testing.T, a Activation, name string, args ...string) string {
	t.Helper()
	for _, dir := range a.Path {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			name = filepath.Join(dir, name)
		}
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

func TestVenv(t *testing.T) {
	packages := environmenttest.Wheel(t, "greet", "1.0")
	maps.Copy(packages, environmenttest.Wheel(t, "greet", "2.0"))
	dir := environmenttest.Store(t, packages)
	workspace := environmenttest.Write(t, map[string]string{"requirements.txt": "# all\n-r more/base.txt\n-c limits.txt\n", "more/base.txt": "greet\n-c ../limits.txt\n",
		"limits.txt": "greet<2\n"})
	order, env := built(t, debian, workspace, Auto, dir)
	assert.Equal(t, "venv", order.Provider)
	assert.Len(t, order.Manifests, 3)
	a := venv{}.Activate(env)
	assert.Equal(t, "greet 1.0", output(t, a, "greet"))
	assert.Equal(t, filepath.Join(env, "venv"), a.Env["VIRTUAL_ENV"])
}

// TestVenvWithHashes has pip compare the wheel with requirements.txt.
func TestVenvWithHashes(t *testing.T) {
	packages := environmenttest.Wheel(t, "greet", "1.0")
	dir := environmenttest.Store(t, packages)
	good := fmt.Sprintf("%x", sha256.Sum256([]byte(packages["greet-1.0-py3-none-any.whl"])))
	_, env := built(t, debian, environmenttest.Write(t, map[string]string{"requirements.txt": "greet==1.0 --hash=sha256:" + good + "\n"}), "venv", dir)
	assert.Equal(t, "greet 1.0", output(t, venv{}.Activate(env), "greet"))

	bad := environmenttest.Write(t, map[string]string{"requirements.txt": "greet==1.0 --hash=sha256:" + strings.Repeat("0", 64) + "\n"})
	order, err := Plan(t.Context(), debian, bad, "1000", "venv", dir)
	require.NoError(t, err)
	var log bytes.Buffer
	var failed *BuildError
	require.ErrorAs(t, Build(t.Context(), debian, order, env+"-bad", &log), &failed)
	assert.Contains(t, log.String(), "DO NOT MATCH")
	assert.False(t, Ready(env+"-bad", order.Key()))
}

func TestUV(t *testing.T) {
	host := tool(t, "CODEX_PROXY_TEST_UV")
	dir := environmenttest.Store(t, environmenttest.Wheel(t, "greet", "1.0"))
	const project = "[project]\nname = 'p'\nversion = '1'\nrequires-python = '>=3.9'\ndependencies = ['greet']\n"
	workspace := environmenttest.Write(t, map[string]string{"pyproject.toml": project, "requirements.txt": "other\n"})
	lock := exec.Command(filepath.Join(filepath.SplitList(host.Path)[0], "uv"), "lock", "--offline", "--no-index", "--find-links", dir, "--python", "/usr/bin/python3")
	lock.Dir, lock.Env = workspace, []string{"HOME=" + t.TempDir(), "PATH=/usr/bin", "UV_PYTHON_DOWNLOADS=never"}
	out, err := lock.CombinedOutput()
	require.NoError(t, err, "%s", out)
	order, env := built(t, host, workspace, Auto, dir)
	assert.Equal(t, "uv", order.Provider, "a lock comes before requirements.txt")
	assert.Equal(t, "greet 1.0", output(t, uv{}.Activate(env), "greet"))

	require.NoError(t, os.WriteFile(filepath.Join(workspace, "pyproject.toml"), []byte(strings.Replace(project, "greet", "greet>9", 1)), 0o644))
	order, err = Plan(t.Context(), host, workspace, "1000", "uv", dir)
	require.NoError(t, err)
	var failed *BuildError
	require.ErrorAs(t, Build(t.Context(), host, order, t.TempDir()+"/e", os.Stderr), &failed, "the lock is older than pyproject.toml")
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
	workspace := environmenttest.Write(t, map[string]string{"environment.yml": "name: x\ndependencies:\n  - greet\n"})
	order, env := built(t, host, workspace, "micromamba", dir)
	assert.Equal(t, "conda", order.Provider)
	assert.Equal(t, "greet 1.0", output(t, conda{}.Activate(env), "greet"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "noarch/greet-1.0-0.tar.bz2"), []byte("replaced"), 0o644))
	require.ErrorContains(t, Build(t.Context(), host, order, t.TempDir()+"/e", os.Stderr), "is not the file that SHA256SUMS names")
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

func TestNode(t *testing.T) {
	pack := environmenttest.Tarball(t, map[string]string{"package/package.json": `{"name":"greet","version":"1.0.0","bin":"cli.js","main":"index.js","scripts":{"install":"echo built > built"}}`,
		"package/cli.js": "#!/usr/bin/env node\nconsole.log(require('.'))\n", "package/index.js": "module.exports = 'greet 1.0'\n"})
	sum := sha512.Sum512([]byte(pack))
	lock := `{"name":"p","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
		"":{"name":"p","version":"1.0.0","dependencies":{"greet":"1.0.0"}},
		"node_modules/greet":{"version":"1.0.0","resolved":"https://registry.npmjs.org/greet/-/greet-1.0.0.tgz","hasInstallScript":true,
			"integrity":"sha512-` + base64.StdEncoding.EncodeToString(sum[:]) + `","bin":{"greet":"cli.js"}}}}`
	workspace := environmenttest.Write(t, map[string]string{"package-lock.json": lock,
		"package.json": `{"name":"p","version":"1.0.0","dependencies":{"greet":"1.0.0"},"scripts":{"prepare":"exit 1"}}`, "use.mjs": "import g from 'greet'; console.log(g)\n"})
	order, env := built(t, debian, workspace, Auto, environmenttest.Store(t, map[string]string{"greet-1.0.0.tgz": pack}))
	assert.Equal(t, "node", order.Provider)
	a := node{}.Activate(env)
	assert.Equal(t, "greet 1.0", output(t, a, "greet"))
	for name, target := range a.Links {
		require.NoError(t, os.Symlink(target, filepath.Join(workspace, name)))
		assert.FileExists(t, filepath.Join(target, "greet/built"), "scripts of packages run")
	}
	assert.Equal(t, "greet 1.0", output(t, a, "/usr/bin/node", filepath.Join(workspace, "use.mjs")))
	again, err := Plan(t.Context(), debian, workspace, "1000", Auto, order.Store.Dir)
	require.NoError(t, err, "the link stays for the next command")
	assert.Equal(t, order.Key(), again.Key())
	require.NoError(t, os.Remove(filepath.Join(workspace, "node_modules")))
	require.NoError(t, os.Mkdir(filepath.Join(workspace, "node_modules"), 0o755))
	_, err = Plan(t.Context(), debian, workspace, "1000", Auto, "")
	require.ErrorIs(t, err, ErrUnsupported, "the workspace has a node_modules of its own")
}

func TestKey(t *testing.T) {
	base := Order{Owner: "1000", Provider: "venv", Architecture: "amd64", Tools: []Tool{{"python3", "/usr/bin/python3.11", "3.11", "cp311"}},
		Manifests: []Manifest{{"a", []byte("1")}, {"b", []byte("2")}}, Store: Store{"/s", []byte("x")}}
	keys := map[string]string{base.Key(): "base"}
	for name, change := range map[string]func(o *Order){
		"owner":    func(o *Order) { o.Owner = "1001" },
		"provider": func(o *Order) { o.Provider = "uv" }, "architecture": func(o *Order) { o.Architecture = "arm64" },
		"tool":        func(o *Order) { o.Tools = []Tool{{"python3", "/usr/bin/python3.11", "3.12", "cp311"}} },
		"ABI":         func(o *Order) { o.Tools = []Tool{{"python3", "/usr/bin/python3.11", "3.11", "cp311d"}} },
		"content":     func(o *Order) { o.Manifests = []Manifest{{"a", []byte("12")}, {"b", []byte("")}} },
		"name":        func(o *Order) { o.Manifests = []Manifest{{"ab", []byte("1")}, {"", []byte("2")}} },
		"sums":        func(o *Order) { o.Store.Sums = []byte("y") },
		"the network": func(o *Order) { o.Store = Store{} },
	} {
		o := base
		change(&o)
		assert.Empty(t, keys[o.Key()], name)
		keys[o.Key()] = name
	}
	assert.Regexp(t, "^[0-9a-f]{64}$", base.Key())
	var read Order
	data, err := json.Marshal(base)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &read))
	assert.Equal(t, base.Key(), read.Key(), "the unit that builds computes the same key")
}

func TestKeyIgnoresTimes(t *testing.T) {
	workspace := environmenttest.Write(t, map[string]string{"requirements.txt": "greet\n"})
	first, err := Plan(t.Context(), debian, workspace, "1000", Auto, "")
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(filepath.Join(workspace, "requirements.txt"), first0, first0))
	again, err := Plan(t.Context(), debian, workspace, "1000", Auto, "")
	require.NoError(t, err)
	assert.Equal(t, first.Key(), again.Key())
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "requirements.txt"), []byte("other\n"), 0o644))
	other, err := Plan(t.Context(), debian, workspace, "1000", Auto, "")
	require.NoError(t, err)
	assert.NotEqual(t, first.Key(), other.Key())
	assert.Equal(t, runtime.GOARCH, other.Architecture)
}

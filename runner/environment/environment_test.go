package environment

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
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
func built(t *testing.T, host Host, workspace, packages string) (Order, string) {
	t.Helper()
	order, err := Plan(t.Context(), host, workspace, "1000", packages)
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
	order, env := built(t, host, workspace, dir)
	assert.Equal(t, "conda", order.Provider)
	assert.Equal(t, "greet 1.0", output(t, Activate(env), "greet"))
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

func TestKey(t *testing.T) {
	base := Order{Owner: "1000", Provider: "venv", Architecture: "amd64", Tools: []Tool{{"python3", "/usr/bin/python3.11", "3.11", "cp311"}},
		Manifests: []Manifest{{"a", []byte("1")}, {"b", []byte("2")}}, Store: Store{"/s", []byte("x")}}
	keys := map[string]string{base.Key(): "base"}
	for name, change := range map[string]func(o *Order){
		"owner":        func(o *Order) { o.Owner = "1001" },
		"architecture": func(o *Order) { o.Architecture = "arm64" },
		"tool":         func(o *Order) { o.Tools = []Tool{{"python3", "/usr/bin/python3.11", "3.12", "cp311"}} },
		"ABI":          func(o *Order) { o.Tools = []Tool{{"python3", "/usr/bin/python3.11", "3.11", "cp311d"}} },
		"content":      func(o *Order) { o.Manifests = []Manifest{{"a", []byte("12")}, {"b", []byte("")}} },
		"name":         func(o *Order) { o.Manifests = []Manifest{{"ab", []byte("1")}, {"", []byte("2")}} },
		"sums":         func(o *Order) { o.Store.Sums = []byte("y") },
		"the network":  func(o *Order) { o.Store = Store{} },
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
	host, workspace := mamba(t), environmenttest.Write(t, map[string]string{"environment.yml": "greet\n"})
	plan := func() Order {
		o, err := Plan(t.Context(), host, workspace, "1000", "")
		require.NoError(t, err)
		return o
	}
	first := plan()
	require.NoError(t, os.Chtimes(filepath.Join(workspace, "environment.yml"), first0, first0))
	assert.Equal(t, first.Key(), plan().Key())
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "environment.yml"), []byte("other\n"), 0o644))
	assert.NotEqual(t, first.Key(), plan().Key())
	assert.Equal(t, runtime.GOARCH, first.Architecture)
}

// mamba returns a host with a program that plays micromamba.
func mamba(t *testing.T) Host {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "micromamba"), []byte("#!/bin/sh\necho 1\n"), 0o755))
	return Host{Path: dir}
}

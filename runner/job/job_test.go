package job

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/workspace"
)

// files are those of a job with the order.
func files(t *testing.T, order any) Files {
	t.Helper()
	text, err := json.Marshal(order)
	require.NoError(t, err)
	f := Files{}
	for _, name := range []string{paths.OrderFile, paths.OutputFile, paths.ResultFile} {
		f[name], err = os.Create(filepath.Join(t.TempDir(), name))
		require.NoError(t, err)
	}
	_, err = f[paths.OrderFile].Write(text)
	require.NoError(t, err)
	return f
}

// result reads the result of a job.
func result[T Fetched | Built](t *testing.T, f Files) *T {
	t.Helper()
	file, err := os.Open(f[paths.ResultFile].Name())
	require.NoError(t, err)
	defer file.Close()
	v, err := Read[T](file)
	require.NoError(t, err)
	return v
}

// git runs git in a directory, with an identity.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org",
		"-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// origin makes a repository whose submodule has a submodule.
func origin(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	for i, name := range []string{"deep", "sub", "main"} {
		git(t, top, "init", "-q", "-b", "main", name)
		dir := filepath.Join(top, name)
		require.NoError(t, os.WriteFile(dir+"/file", []byte(name), 0o600))
		if i > 0 {
			below := []string{"deep", "sub"}[i-1]
			git(t, dir, "submodule", "--quiet", "add", "file://"+top+"/"+below, below)
			git(t, dir, "config", "--file=.gitmodules", "submodule."+below+".url", "../"+below)
		}
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", name)
	}
	return top + "/main"
}

func TestFetch(t *testing.T) {
	repository, dir := origin(t), t.TempDir()
	commit := git(t, repository, "rev-parse", "HEAD")
	order := Fetch{Version: Version, ID: "1", URL: "file://" + repository, Time: time.Minute, Bytes: 1 << 30}
	f := files(t, order)
	require.NoError(t, Fetch{}.Run(t.Context(), f, dir, ""))
	fetched := result[Fetched](t, f)
	assert.Equal(t, &Fetched{Version: Version, ID: "1", Commit: commit, Bytes: fetched.Bytes}, fetched)
	assert.Greater(t, fetched.Bytes, int64(1000))
	for _, name := range []string{"sub", "deep"} {
		mirror := filepath.Join(dir, paths.ModuleMirror("file://"+filepath.Dir(repository)+"/"+name))
		_, err := workspace.Resolve(t.Context(), mirror, "main")
		require.NoError(t, err, name)
	}

	order.Ref = "mian"
	f = files(t, order)
	require.NoError(t, Fetch{}.Run(t.Context(), f, dir, ""))
	assert.Equal(t, &Failure{UnknownRef, `the repository has no branch, tag or commit "mian": do you mean main?`},
		result[Fetched](t, f).Failure)
}

// A set-up may follow from files of a submodule.
func TestFetchOfAPlainCommit(t *testing.T) {
	repository := origin(t)
	plain := func() bool {
		f := files(t, Fetch{Version: Version, Ref: "main", URL: "file://" + repository, Time: time.Minute, Bytes: 1 << 30})
		require.NoError(t, Fetch{}.Run(t.Context(), f, t.TempDir(), ""))
		require.Nil(t, result[Fetched](t, f).Failure)
		return result[Fetched](t, f).Plain
	}
	assert.False(t, plain(), "it has a submodule")
	git(t, repository, "rm", "-q", "sub")
	git(t, repository, "commit", "-q", "-m", "no submodule")
	assert.True(t, plain())
	require.NoError(t, os.WriteFile(repository+"/go.mod", nil, 0o600))
	git(t, repository, "add", "go.mod")
	git(t, repository, "commit", "-q", "-m", "module")
	assert.False(t, plain())
}

func TestFetchOfABundle(t *testing.T) {
	repository, dir := origin(t), t.TempDir()
	commit := git(t, repository, "rev-parse", "HEAD")
	f := files(t, Fetch{Version: Version, ID: "1", Local: true, URL: "file://" + repository, Time: time.Minute, Bytes: 1 << 30})
	bundle, err := os.Create(filepath.Join(t.TempDir(), "bundle"))
	require.NoError(t, err)
	require.NoError(t, workspace.WriteBundle(t.Context(), workspace.Local{Dir: repository, Commit: commit}, nil, "", bundle))
	f[paths.BundleFile], err = os.Open(bundle.Name())
	require.NoError(t, err)
	require.NoError(t, Fetch{}.Run(t.Context(), f, dir, ""))
	fetched := result[Fetched](t, f)
	tags, err := workspace.LocalTags(t.Context(), workspace.Local{Dir: repository, Commit: commit})
	require.NoError(t, err)
	assert.Equal(t, &Fetched{Version: Version, ID: "1", Commit: commit, Tags: tags, Bytes: fetched.Bytes}, fetched)
	assert.Greater(t, fetched.Bytes, int64(1000))
	assert.NoFileExists(t, filepath.Join(dir, paths.Bundle))

	// Without a bundle, a local repository is what its mirror has. A damaged mirror is made anew.
	order := Fetch{Version: Version, Ref: commit, Local: true, URL: "file://" + repository, Time: time.Minute, Bytes: 1 << 30}
	f = files(t, order)
	require.NoError(t, Fetch{}.Run(t.Context(), f, dir, ""))
	assert.Equal(t, commit, result[Fetched](t, f).Commit)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, paths.Mirror, "objects")))
	order.Anew = true
	f = files(t, order)
	f[paths.BundleFile], err = os.Open(bundle.Name())
	require.NoError(t, err)
	require.NoError(t, Fetch{}.Run(t.Context(), f, dir, ""))
	assert.Equal(t, commit, result[Fetched](t, f).Commit)
}

// A build makes nothing but the environment that its unit is for.
func TestBuild(t *testing.T) {
	order := environment.Order{}
	for key, want := range map[string]string{
		paths.EnvironmentInstance(order.Key()): "", "0123456789abcdef": "the order is that of the environment " + order.Key() + ": it cannot be 0123456789abcdef",
	} {
		f, dir := files(t, Build{Version: Version, Order: order, Bytes: 1 << 30}), t.TempDir()
		require.NoError(t, Build{}.Run(t.Context(), f, key, Place{Environments: dir}))
		built := result[Built](t, f)
		if want == "" {
			assert.Nil(t, built.Failure)
			assert.True(t, environment.Ready(filepath.Join(dir, order.Key()), order.Key()))
			assert.Positive(t, built.Bytes)
		} else {
			assert.Equal(t, &Failure{Failed, want}, built.Failure)
		}
	}
}

// A build that writes more than it may is ended, and its log keeps the end.
func TestBuildThatIsTooLarge(t *testing.T) {
	tools := t.TempDir()
	program := filepath.Join(tools, "micromamba")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nyes | head -c 9000000; head -c 5000000 /dev/zero >../large; exec sleep 4321\n"), 0o755))
	order := environment.Order{
		Provider: "conda", Tools: []environment.Tool{{Name: "micromamba", Path: program}},
		Manifests: []environment.Manifest{{Path: "environment.yml"}},
	}
	t.Setenv("TMPDIR", t.TempDir())
	f := files(t, Build{Version: Version, Order: order, Bytes: 4_000_000})
	require.NoError(t, Build{}.Run(t.Context(), f, paths.EnvironmentInstance(order.Key()), Place{
		Environments: t.TempDir(), Programs: sandbox.Programs{Usual: "/usr/bin:/bin"},
	}))
	assert.Contains(t, result[Built](t, f).Failure.Text, "takes more than 4000000 bytes")
	info, err := os.Stat(f[paths.OutputFile].Name())
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(maxOutput))
}

// A build finds the programs and the variables of the settings, but for what is the build's own.
func TestSandboxOfABuild(t *testing.T) {
	tools := t.TempDir()
	require.NoError(t, os.WriteFile(tools+"/say", []byte("#!/bin/sh\necho said $WORD $HOME\n"), 0o755))
	program := filepath.Join(t.TempDir(), "micromamba")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nsay\n"), 0o755))
	order := environment.Order{
		Provider: "conda", Tools: []environment.Tool{{Name: "micromamba", Path: program}},
		Manifests: []environment.Manifest{{Path: "environment.yml"}},
	}
	f := files(t, Build{Version: Version, Order: order, Bytes: 1 << 30, Sandbox: &sandbox.Given{
		Path: []string{tools}, Env: map[string]string{"WORD": "hello", "HOME": "/other"},
	}})
	require.NoError(t, Build{}.Run(t.Context(), f, paths.EnvironmentInstance(order.Key()), Place{
		Environments: t.TempDir(), Programs: sandbox.Programs{Usual: "/usr/bin:/bin"},
	}))
	assert.Nil(t, result[Built](t, f).Failure)
	output, err := os.ReadFile(f[paths.OutputFile].Name())
	require.NoError(t, err)
	assert.Contains(t, string(output), "said hello /")
	assert.NotContains(t, string(output), "/other")
}

func TestMistakenOrders(t *testing.T) {
	for want, order := range map[string]any{
		"the order has version 2, this program knows 1": Fetch{Version: 2},
		`json: unknown field "colour"`:                  map[string]any{"colour": 1},
		"this URL cannot be fetched":                    Fetch{Version: Version, URL: "ext::sh", Time: 1, Bytes: 1},
	} {
		f := files(t, order)
		require.NoError(t, Fetch{}.Run(t.Context(), f, t.TempDir(), ""))
		assert.Contains(t, result[Fetched](t, f).Failure.Text, want)
	}
	assert.ErrorContains(t, Build{}.Run(t.Context(), Files{}, "", Place{}), "start the unit by systemctl")
	_, err := Read[Built](strings.NewReader(`{"version":1}`))
	assert.ErrorContains(t, err, "the job was killed")
}

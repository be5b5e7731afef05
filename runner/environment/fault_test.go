package environment

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codex-proxy/runner/environment/environmenttest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var first0 = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

func TestPlanErrors(t *testing.T) {
	empty := Host{Path: t.TempDir()}
	plan := func(host Host, name string, files map[string]string) error {
		t.Helper()
		_, err := Plan(t.Context(), host, environmenttest.Write(t, files), "1000", name, "")
		return err
	}
	require.NoError(t, plan(empty, Auto, nil), "no manifest is the environment none")
	var missing *MissingToolError
	require.ErrorAs(t, plan(empty, Auto, map[string]string{"requirements.txt": ""}), &missing)
	assert.EqualError(t, missing, "this host has no python3: install the package python3")
	require.ErrorAs(t, plan(empty, Auto, map[string]string{"environment.yml": ""}), &missing)
	assert.Equal(t, "micromamba", missing.Tool)
	require.ErrorAs(t, plan(empty, Auto, map[string]string{"package.json": "{}", "package-lock.json": "{}"}), &missing)
	assert.Equal(t, "node", missing.Tool)
	require.ErrorAs(t, plan(empty, "uv", map[string]string{"uv.lock": "", "pyproject.toml": ""}), &missing)
	assert.Equal(t, "uv", missing.Tool)

	require.EqualError(t, plan(debian, "vnev", nil), `there is no environment "vnev": do you mean venv?`)
	require.ErrorContains(t, plan(debian, "poetry", nil), "use one of auto, setup, uv, conda, venv, node, none, micromamba")
	require.ErrorContains(t, plan(debian, "venv", nil), "the workspace has no manifest for the environment venv")
	for line, want := range map[string]error{"-e .": ErrUnsupported, "--editable=x": ErrUnsupported, "./x": ErrUnsupported, "file:///x": ErrUnsupported} {
		err := plan(debian, "venv", map[string]string{"requirements.txt": "# one\n" + line + "\n"})
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "requirements.txt, line 2: ")
	}
	require.ErrorContains(t, plan(debian, "venv", map[string]string{"requirements.txt": "-r other.txt\n"}), "line 1: other.txt is not in the workspace")
	require.ErrorContains(t, plan(debian, "venv", map[string]string{"requirements.txt": "-r a", "a": "-c requirements.txt"}), "line 1: requirements.txt includes itself")
	require.Error(t, plan(debian, "venv", map[string]string{"requirements.txt": "-r ../../../etc/passwd\n"}), "it leaves the workspace")
	require.ErrorIs(t, plan(debian, "uv", map[string]string{"uv.lock": "", "pyproject.toml": "[tool.uv.workspace]\nmembers = ['a']\n"}), ErrUnsupported)
	require.ErrorContains(t, plan(debian, "conda", map[string]string{"environment.yml": "", "environment.yaml": ""}), "remove one of them")
	require.ErrorIs(t, plan(debian, "node", map[string]string{"package.json": "{}", "package-lock.json": `{"packages":{"node_modules/a":{"link":true}}}`}), ErrUnsupported)
	require.ErrorContains(t, plan(debian, "node", map[string]string{"package.json": "{}", "package-lock.json": `{`}), "package-lock.json: ")

	workspace := t.TempDir()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(workspace, "requirements.txt")))
	_, err := Plan(t.Context(), debian, workspace, "1000", "venv", "")
	require.Error(t, err, "a link out of the workspace")
	_, err = Plan(t.Context(), debian, environmenttest.Write(t, map[string]string{"requirements.txt": ""}), "1000", "venv", t.TempDir())
	require.ErrorContains(t, err, "sha256sum")
}

// TestBuildThatFails has a build leave no whole environment, and none begin where an earlier one was.
func TestBuildThatFails(t *testing.T) {
	host := Host{Path: environmenttest.Write(t, nil)}
	above := t.TempDir()
	order := Order{Provider: "conda", Tools: []Tool{{Name: "micromamba", Path: filepath.Join(host.Path, "micromamba")}}, Manifests: []Manifest{{"environment.yml", nil}}}
	script := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(host.Path, "micromamba"), []byte("#!/bin/sh\n"+text), 0o755))
	}
	script(": >../half\necho output\nexit 3\n")
	var log bytes.Buffer
	var failed *BuildError
	require.ErrorAs(t, Build(t.Context(), host, order, above+"/1", &log), &failed)
	assert.Equal(t, "output\n", log.String())
	assert.FileExists(t, above+"/1/half")
	assert.False(t, Ready(above+"/1", order.Key()))
	require.ErrorIs(t, Build(t.Context(), host, order, above+"/1", &log), os.ErrExist)

	script("test -e environment.yml && : >../whole\n")
	require.NoError(t, Build(t.Context(), host, order, above+"/2", &log))
	assert.FileExists(t, above+"/2/whole")
	assert.True(t, Ready(above+"/2", order.Key()))
	assert.False(t, Ready(above+"/2", order.Key()[:28]), "the whole key counts")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Build(ctx, host, order, above+"/3", &log), context.Canceled)
	assert.False(t, Ready(above+"/3", order.Key()))
}

// TestManifestsStayInside has an order of a hostile session write nothing outside of the environment.
func TestManifestsStayInside(t *testing.T) {
	place := t.TempDir()
	for _, path := range []string{"../x", "/x", "a/../../x"} {
		err := Build(t.Context(), debian, Order{Provider: "none", Manifests: []Manifest{{path, []byte("x")}}}, filepath.Join(place, "e"), os.Stderr)
		require.Error(t, err, path)
		require.NoError(t, os.RemoveAll(filepath.Join(place, "e")))
	}
	assert.NoFileExists(t, filepath.Join(place, "x"))
}

func TestStoreErrors(t *testing.T) {
	for line, want := range map[string]string{"nonsense": "which is no sum of a file", "00  ../x": "which is no sum of a file", "00  missing": "no such file"} {
		assert.ErrorContains(t, Store{t.TempDir(), []byte(line + "\n")}.Verify(), want)
	}
}

// TestBuildEndsWithItsContext has a grandchild hold the pipe to the log.
func TestBuildEndsWithItsContext(t *testing.T) {
	host := Host{Path: t.TempDir()}
	program := filepath.Join(host.Path, "micromamba")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n/bin/sh -c 'echo started; exec /bin/sleep 1000' &\nwait\n"), 0o755))
	order := Order{Provider: "conda", Tools: []Tool{{Name: "micromamba", Path: program}}, Manifests: []Manifest{{"environment.yml", nil}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Build(ctx, host, order, t.TempDir()+"/e", writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	require.ErrorIs(t, err, context.Canceled)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

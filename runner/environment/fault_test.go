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
	plan := func(host Host, files map[string]string) error {
		t.Helper()
		_, err := Plan(t.Context(), host, environmenttest.Write(t, files), "1000", "")
		return err
	}
	host := mamba(t)
	require.EqualError(t, plan(host, nil), "the workspace has no environment.yml for the environment conda: add one, or use --env auto or none")
	var missing *MissingToolError
	require.ErrorAs(t, plan(Host{Path: t.TempDir()}, map[string]string{"environment.yml": ""}), &missing)
	assert.Equal(t, "micromamba", missing.Tool)
	require.ErrorContains(t, plan(host, map[string]string{"environment.yml": "", "environment.yaml": ""}), "remove one of them")

	workspace := t.TempDir()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(workspace, "environment.yml")))
	_, err := Plan(t.Context(), host, workspace, "1000", "")
	require.Error(t, err, "a link out of the workspace")
	_, err = Plan(t.Context(), host, environmenttest.Write(t, map[string]string{"environment.yml": ""}), "1000", t.TempDir())
	require.ErrorContains(t, err, "sha256sum")
}

// The names of earlier versions are ways of the set-up.
func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"auto": Auto, "setup": Setup, "none": None, "conda": Conda, "micromamba": Conda, "uv": Setup, "venv": Setup, "node": Setup,
	} {
		got, err := Find(name)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := Find("stepu")
	require.EqualError(t, err, `there is no environment "stepu": do you mean setup?`)
	_, err = Find("poetry")
	require.ErrorContains(t, err, "use one of auto, setup, none, conda, micromamba")
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
		err := Build(t.Context(), debian, Order{Manifests: []Manifest{{path, []byte("x")}}}, filepath.Join(place, "e"), os.Stderr)
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

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const vendored = "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"

// install makes a node_modules with codex on a PATH beside it, the platform's
// package at the given place in it.
func install(t *testing.T, place string) (path, binary string) {
	t.Helper()
	root := t.TempDir()
	script := filepath.Join(root, "node_modules/@openai/codex/bin/codex.js")
	binary = filepath.Join(root, "node_modules", place)
	elf, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	for file, data := range map[string][]byte{script: []byte("#!/usr/bin/env node\n"), binary: elf} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, data, 0o755))
	}
	require.NoError(t, os.Mkdir(filepath.Join(root, "bin"), 0o755))
	require.NoError(t, os.Symlink(script, filepath.Join(root, "bin/codex")))
	return filepath.Join(root, "bin"), binary
}

func TestFindCodex(t *testing.T) {
	for name, place := range map[string]string{
		"hoisted": vendored, "nested": "@openai/codex/node_modules/" + vendored,
	} {
		t.Run(name, func(t *testing.T) {
			path, want := install(t, place)
			got, err := findCodex(settings{path: "/nonexistent:" + path})
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	_, err := findCodex(settings{codex: "/nonexistent"})
	assert.ErrorContains(t, err, "cannot use CODEX=/nonexistent")
}

func TestChooseWorker(t *testing.T) {
	path, binary := install(t, vendored)
	home := t.TempDir()

	w, err := chooseWorker(t.Context(), settings{path: path, codexHome: home})
	require.NoError(t, err)
	assert.Equal(t, "mode = \"demo\"\n", w.config)
	assert.Contains(t, w.hint, "has no login")

	require.NoError(t, os.WriteFile(filepath.Join(home, "auth.json"), nil, 0o600))
	w, err = chooseWorker(t.Context(), settings{path: path, codexHome: home})
	require.NoError(t, err)
	assert.True(t, w.login)
	assert.Equal(t, "mode = \"plain\"\ncodex_path = \"/opt/codex/bin/codex\"\n", w.config)
	assert.Equal(t, filepath.Dir(filepath.Dir(binary)), w.binds[0].Source)
	assert.Equal(t, home, w.binds[1].Source)
}

func TestEndpoint(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/v1/models", r.URL.Path)
		_, _ = w.Write([]byte(`{"data":[{"id":"first"},{"id":"second"}]}`))
	}))
	defer server.Close()
	path, _ := install(t, vendored)

	_, err := chooseWorker(t.Context(), settings{endpoint: server.URL + "/v1"})
	require.ErrorContains(t, err, "MODEL_ENDPOINT needs a real codex")
	w, err := chooseWorker(t.Context(), settings{endpoint: server.URL + "/v1", path: path})
	require.NoError(t, err)
	assert.Contains(t, w.config,
		"model = \"first\"\n[provider]\nname = \"endpoint\"\nbase_url = \""+server.URL+"/v1\"\n")
	assert.False(t, w.login, "the login is not for an endpoint")
}

func TestPortFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	err = portFree(l.Addr().String())
	program := filepath.Base(os.Args[0])
	assert.ErrorContains(t, err, l.Addr().String()+" is in use by "+program[:min(len(program), 15)]+" (PID ") // proc_pid_comm(5)
	require.NoError(t, l.Close())
	assert.NoError(t, portFree(l.Addr().String()))
}

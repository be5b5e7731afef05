package setup_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/setup"
)

func TestRead(t *testing.T) {
	s, err := setup.Read(tree("go.mod"))
	require.NoError(t, err)
	assert.Nil(t, s, "no file")
	s, err = setup.Read(tree(setup.File + `: run = "make deps"
inputs = ["deps/**"]
env = {A = "1"}
path = ["bin", "~/.local/bin"]
dir = "web"`))
	require.NoError(t, err)
	assert.Equal(t, "make deps", s.Run)
	assert.Equal(t, "web", s.Dir)
	assert.Equal(t, []string{"/workspace/bin", "/home/x/.local/bin"}, s.SearchPath("/workspace", "/home/x"))
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 `.codex-runner.toml: run is empty: name the commands that make the repository ready, such as run = "npm ci"`,
		"run = 'x'\nrnu = 'y'":             `.codex-runner.toml:2: unknown key "rnu" (did you mean "run"?)`,
		"run = 'x'\ninputs = ['../a']":     `.codex-runner.toml:2: inputs: "../a" is no pattern of files in the workspace: leave out .. and the first /`,
		"run = 'x'\n\ndir = '/web'":        `.codex-runner.toml:3: dir is "/web": use a directory of the repository in its shortest form, such as "web"`,
		"run = 'x'\npath = ['/usr/bin']":   `.codex-runner.toml:2: path: "/usr/bin" is no directory of the repository or of HOME: use a form such as "node_modules/.bin" or "~/.local/bin"`,
		"run = 'x'\n[env]\nPATH = '/tmp'":  `.codex-runner.toml:2: env: "PATH" cannot be set here: use another name, and path for PATH`,
		"run = 'x'\n[env]\n'A=B' = '/tmp'": `.codex-runner.toml:2: env: "A=B" cannot be set here: use another name, and path for PATH`,
	} {
		_, err := setup.Parse(setup.File, []byte(text))
		assert.EqualError(t, err, want)
	}
}

package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The hint names the program of the caller and the line that shows it, for programs that sessions do not find alone.
func TestHint(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	for _, file := range []string{
		home + "/.cargo/bin/cargo", home + "/.rustup/settings.toml", home + "/.nvm/versions/node/v20.1.0/bin/node",
		home + "/bin/mine", home + "/loose", other + "/zig",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755))
	}
	c := Caller{Home: home, Path: home + "/bin:" + home + ":" + other}
	const begin, end = "This host has ", "; then systemctl restart codex-runner."
	shows := func(path, line string) string {
		return begin + path + " for you, and sessions do not find it: an administrator shows it with " + line +
			" of [sandbox] in /etc/codex-runner/runner.toml"
	}
	cargo := shows(home+"/.cargo/bin/cargo", `toolchains = ["`+home+`/.cargo/bin", "`+home+`/.rustup"]`)
	for program, want := range map[string]string{
		"cargo": cargo, home + "/.cargo/bin/cargo": cargo,
		"node":    shows(home+"/.nvm/versions/node/v20.1.0/bin/node", `toolchains = ["`+home+`/.nvm/versions"]`),
		"none":    "",
		"./mine":  "",
		"/bin/sh": "",
	} {
		if want != "" {
			want += ", or with user_toolchains = true to each user their own" + end
		}
		assert.Equal(t, want, c.Hint(program))
	}
	c.Root = true
	assert.Equal(t, cargo+end, c.Hint("cargo"))
	c.Settings = Settings{Toolchains: []string{home + "/.cargo/bin", home + "/.rustup"}}
	assert.Empty(t, c.Hint("cargo"), "the settings show it: the reason is another one")
	assert.NotEmpty(t, c.Hint("node"))
}

// A program that is nowhere below a home is one for PATH, and a home as a whole is nothing to show.
func TestHintOutsideOfHomes(t *testing.T) {
	place := Caller{Home: "/home/alice", Path: "/opt/zig"}
	assert.Equal(t, []string{"/opt/zig"}, place.toolchain("/opt/zig/zig"))
	assert.Empty(t, place.toolchain("/home/alice/zig"))
	assert.Empty(t, place.toolchain("/tmp/x/zig"), "that is hidden, too")
	assert.Equal(t, []string{"/home/alice/bin"}, place.toolchain("/home/alice/bin/zig"))
}

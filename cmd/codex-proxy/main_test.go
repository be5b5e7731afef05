package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/cli"
)

const (
	exitOK      = cli.OK
	exitFailure = cli.Failure
	exitUsage   = cli.Usage
	exitConfig  = cli.Config
)

// result is what a command line leaves behind.
type result struct {
	status         int
	stdout, stderr string
}

// try runs a command line.
func try(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	status := run(ctx, args, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

func TestUsage(t *testing.T) {
	help := try(t, "help").stdout
	assert.True(t, strings.HasPrefix(help, "Usage: codex-proxy COMMAND"), help)
	assert.Equal(t, result{exitUsage, "", help}, try(t))
	for _, word := range []string{"help", "-h", "--help"} {
		assert.Equal(t, result{exitOK, help, ""}, try(t, word))
	}
	assert.Equal(t, result{exitUsage, "", "codex-proxy: unknown command \"serv\" (did you mean \"serve\"?); see codex-proxy help\n"}, try(t, "serv"))
}

func TestUsageNamesEveryCommand(t *testing.T) {
	help := try(t, "help").stdout
	for _, group := range commands() {
		for _, c := range group.Commands {
			assert.Contains(t, help, "\n  "+c.Name()+" ")
			got := try(t, c.Name(), "--help")
			assert.Equal(t, exitOK, got.status, c.Name())
			assert.True(t, strings.HasPrefix(got.stdout, "Usage: codex-proxy "+c.Name()), got.stdout)
			assert.Empty(t, got.stderr)
			assert.Equal(t, got, try(t, "help", c.Name()))

			got = try(t, c.Name(), "--no-such-option")
			assert.Equal(t, exitUsage, got.status, c.Name())
			assert.Empty(t, got.stdout)
			assert.Contains(t, got.stderr, "no-such-option")
		}
	}
}

// The man page of a command with others below it has an option of several of them once, with one text for all.
func TestOptionsOfOneNameHaveOneText(t *testing.T) {
	for _, group := range commands() {
		for _, parent := range group.Commands {
			texts := map[string]string{}
			compare := func(f *pflag.Flag) {
				text := "--" + f.Name + " " + f.Value.Type() + " " + f.Usage
				assert.Equal(t, cmp.Or(texts[f.Name], text), text, parent.Name())
				texts[f.Name] = text
			}
			parent.LocalFlags().VisitAll(compare)
			for _, c := range parent.Commands() {
				c.LocalFlags().VisitAll(compare)
			}
		}
	}
}

// A command that only root may run reports that.
func TestCommandsOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir() // nobody else may enter it
	require.NoError(t, os.Chmod(dir, 0o700))
	for _, args := range [][]string{
		{"keys", "list", "--file", filepath.Join(dir, "keys"), "--socket", filepath.Join(dir, "socket")},
		{"keys", "add", "x", "--file", filepath.Join(dir, "keys"), "--socket", filepath.Join(dir, "socket")},
		{"usage", "--database", filepath.Join(dir, "usage.db")},
		{"config", "check", "--config", filepath.Join(dir, "config.toml")},
	} {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Dir, cmd.Env = "/", append(os.Environ(), asProgram+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		output, err := cmd.CombinedOutput()
		assert.Error(t, err)
		assert.Regexp(t, `^codex-proxy `+args[0]+`.*: permission denied: only root may do this: try sudo\n$`, string(output))
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		got := try(t, args...)
		assert.Equal(t, exitOK, got.status)
		assert.Regexp(t, `^codex-proxy \S+\n$`, got.stdout)
		assert.Empty(t, got.stderr)
	}
}

// configured writes a configuration with one worker, and returns its path.
func configured(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "workers"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "workers", "default.toml"), nil, 0o644))
	path := filepath.Join(dir, "config.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestConfigCheck(t *testing.T) {
	path := configured(t, "max_inflight = 3\n")
	assert.Equal(t, result{exitOK, path + " is good: workers default\n", ""}, try(t, "config", "check", "--config", path))

	bad := configured(t, "max_inflight = 3\nkeepaliv = \"1s\"\n")
	got := try(t, "config", "check", "--config", bad)
	assert.Equal(t, exitConfig, got.status)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "codex-proxy config check: "+bad+":2:")
	assert.Contains(t, got.stderr, `unknown key "keepaliv" (did you mean "keepalive"?)`)

	got = try(t, "config", "check", "--config", path, "--set", "max_inflight=0")
	assert.Equal(t, exitConfig, got.status)
	assert.Contains(t, got.stderr, "max_inflight = 0: must be between")

	got = try(t, "config", "check", "--config", filepath.Join(t.TempDir(), "none"))
	assert.Equal(t, exitConfig, got.status)
	assert.Contains(t, got.stderr, "cannot read the configuration")

	file := filepath.Join(filepath.Dir(path), "api-keys")
	require.NoError(t, os.WriteFile(file, []byte("garbage\n"), 0o600))
	got = try(t, "config", "check", "--config", path)
	assert.Equal(t, exitConfig, got.status)
	assert.Contains(t, got.stderr, "codex-proxy config check: "+file+": line 1: ")
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "api-keys"), nil, 0o600))
	assert.Zero(t, try(t, "config", "check", "--config", path).status, "the unit has been given others")

	for _, args := range [][]string{{"config"}, {"config", "show"}, {"config", "check", "--config", path, "more"}} {
		got = try(t, args...)
		assert.Equal(t, exitUsage, got.status, args)
		assert.Empty(t, got.stdout)
	}
}

func TestServeTakesABadConfigurationFor78(t *testing.T) {
	got := try(t, "serve", "--config", configured(t, "listen = 7\n"))
	assert.Equal(t, exitConfig, got.status)
	assert.Contains(t, got.stderr, "codex-proxy serve: ")
	assert.Equal(t, 1, strings.Count(got.stderr, "codex-proxy serve: "))
}

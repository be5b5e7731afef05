package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// made is what is made of the programs as they are, once for all tests: names below
// that of the program, and beside them "program" and the help texts.
var made = sync.OnceValues(func() (map[string][]byte, error) {
	if err := os.Chdir("../.."); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "manual")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("SOURCE_DATE_EPOCH", "1772366400"); err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range []string{"codex-proxy", "codex-runner"} {
		if err := makeOne(all, filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// makeOne builds a program and adds what is made of it.
func makeOne(all map[string][]byte, program string) error {
	name := filepath.Base(program)
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./cmd/"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make builds the program that the pages are made of
	if out, err := build.CombinedOutput(); err != nil {
		return &exec.Error{Name: string(out), Err: err}
	}
	files, err := manual(context.Background(), program)
	if err != nil {
		return err
	}
	if files["program"], err = os.ReadFile(program); err != nil {
		return err
	}
	commands, err := describe(context.Background(), program)
	if err != nil {
		return err
	}
	for _, c := range commands {
		if files["help "+c.Name], err = exec.Command(program, c.Name, "--help").Output(); err != nil {
			return err
		}
	}
	for file, text := range files {
		all[name+"/"+file] = text
	}
	return nil
}

func file(t *testing.T, name string) string {
	t.Helper()
	files, err := made()
	require.NoError(t, err)
	require.Contains(t, files, name)
	if !strings.HasSuffix(name, ".gz") {
		return string(files[name])
	}
	z, err := gzip.NewReader(bytes.NewReader(files[name]))
	require.NoError(t, err)
	assert.Zero(t, z.ModTime)
	assert.Empty(t, z.Name)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}

func pages(t *testing.T) []string {
	t.Helper()
	files, err := made()
	require.NoError(t, err)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		return !strings.Contains(name, "/man/")
	})
	require.Len(t, names, 18+7)
	return names
}

func run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(args[0]); err != nil {
		if os.Getenv(machine.RequireEnv) == "1" {
			t.Fatal(args[0] + " is not installed; `make test` installs it")
		}
		t.Skip(args[0] + " is not installed; `make test` installs it")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestPagesAreClean(t *testing.T) {
	for _, name := range pages(t) {
		assert.Empty(t, run(t, file(t, name), "mandoc", "-Tlint", "-Wall"), name)
	}
}

const (
	proxyFile  = "packaging/etc/config.toml"
	workerFile = "packaging/etc/workers/default.toml"
	// dependencyFile is the preset that has every key.
	dependencyFile = "packaging/dependencies/template.toml"
	remoteFile     = "packaging/remotes/template.toml"
	runnerFile     = "packaging/runner/runner.toml"
)

var overstrike = regexp.MustCompile(`.\x08`)

// rendered is what a reader sees, on one line.
func rendered(t *testing.T, name string) string {
	t.Helper()
	text := run(t, file(t, name), "mandoc", "-Tutf8", "-Owidth=400")
	return strings.Join(strings.Fields(overstrike.ReplaceAllString(text, "")), " ")
}

func assertHolds(t *testing.T, page, text string) {
	t.Helper()
	assert.True(t, strings.Contains(page, strings.Join(strings.Fields(text), " ")), "the page lacks %q", text)
}

// The page holds every word of every --help, in its order.
func TestProgramPages(t *testing.T) {
	files, err := made()
	require.NoError(t, err)
	for _, program := range []string{"codex-proxy", "codex-runner"} {
		page := rendered(t, program+"/man/"+program+".1.gz")
		commands := 0
		for name, text := range files {
			if !strings.HasPrefix(name, program+"/help ") {
				continue
			}
			commands++
			help := strings.TrimPrefix(strings.ReplaceAll(string(text), "Usage: "+program, program), " ")
			assertHolds(t, page, help)
		}
		assert.GreaterOrEqual(t, commands, 5, program)
	}
}

// Every setting of the reference files is a tag or an example of its page.
func TestSettingsPages(t *testing.T) {
	for source, page := range map[string]string{
		proxyFile: "codex-proxy/man/codex-proxy.toml.5.gz", workerFile: "codex-proxy/man/codex-worker.toml.5.gz",
		dependencyFile: "codex-proxy/man/codex-dependency.toml.5.gz", runnerFile: "codex-runner/man/codex-runner.toml.5.gz",
	} {
		text := rendered(t, page)
		reference, err := os.ReadFile(source)
		require.NoError(t, err)
		settings := 0
		for _, line := range lines(string(reference)) {
			if setting.MatchString(line) || setting.MatchString(strings.TrimPrefix(line, "#")) {
				settings++
				assertHolds(t, text, strings.TrimLeft(line, "#"))
			}
		}
		assert.Greater(t, settings, 5)
	}
}

func TestUnitPages(t *testing.T) {
	assert.Contains(t, rendered(t, "codex-proxy/man/codex-worker@.service.8.gz"), "RESTART DELAYS")
	assert.Contains(t, rendered(t, "codex-proxy/man/codex-proxy-fetch.service.8.gz"), "ExecStartPre= As root (+)")
	assert.Contains(t, rendered(t, "codex-proxy/man/codex-proxy.service.8.gz"),
		"start_limit_hit too many starts in a row; systemd: nothing any more;")
	dependency := rendered(t, "codex-proxy/man/codex-dependency@.service.8.gz")
	assert.Contains(t, dependency, "a generator makes a drop-in of the file")
	assert.Contains(t, dependency, "RestartPreventExitStatus= A refused start and an invalid file")
	assert.Contains(t, rendered(t, "codex-runner/man/codex-runner.service.8.gz"), "Restart= Sessions run on meanwhile")
	_, err := section("docs/operations.md", "Two")
	assert.ErrorContains(t, err, `there is no section "Two"`)
}

// installed puts the program on PATH and returns the path of a completion script.
func installed(t *testing.T, script string) string {
	t.Helper()
	name := strings.TrimSuffix(script, filepath.Ext(script))
	text := file(t, name+"/completions/"+script)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(file(t, name+"/program")), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	path := filepath.Join(dir, script)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// withKeys is a key file.
func withKeys(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	text := "alice " + strings.Repeat("0", 64) + "\nbob " + strings.Repeat("1", 64) + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// bashWords returns what bash completes a line with.
func bashWords(t *testing.T, program, line string) []string {
	t.Helper()
	script := installed(t, program+".bash")
	text := "compopt() { :; }\n. " + script + "\n" +
		"COMP_LINE='" + line + "'\nCOMP_POINT=${#COMP_LINE}\nCOMP_WORDS=(" + line + ")\n" +
		"case \"$COMP_LINE\" in *' ') COMP_WORDS+=('') ;; esac\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\nCOMP_TYPE=9\n" +
		"_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; " +
		"words=(\"${COMP_WORDS[@]}\") cword=$COMP_CWORD; }\n" +
		"__start_" + program + "\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
	return strings.Fields(run(t, text, "bash"))
}

func TestBashCompletion(t *testing.T) {
	complete := func(line string) []string { return bashWords(t, "codex-proxy", line) }
	assert.Equal(t, []string{"status"}, complete("codex-proxy sta"))
	assert.Equal(t, []string{"--watch"}, complete("codex-proxy status --w"))
	assert.Subset(t, complete("codex-proxy keys "), []string{"add", "set", "revoke", "list"})
	assert.Equal(t, []string{"--models"}, complete("codex-proxy keys add --mo"))
	assert.Equal(t, []string{"check"}, complete("codex-proxy config "))
	assert.Empty(t, complete("codex-proxy serve --config Makef"), "the shell completes files (complete -o default)")
	assert.Equal(t, []string{"alice", "bob"}, complete("codex-proxy keys --file "+withKeys(t)+" revoke "))

	complete = func(line string) []string { return bashWords(t, "codex-runner", line) }
	assert.Equal(t, []string{"--follow"}, complete("codex-runner logs --f"))
	assert.Equal(t, []string{"setup"}, complete("codex-runner run --env s"))
	assert.Empty(t, complete("codex-runner run --patch Makef"), "the shell completes files")
}

func TestFishCompletion(t *testing.T) {
	script := installed(t, "codex-proxy.fish")
	complete := func(line string) string {
		return run(t, "", "fish", "--no-config", "--command", "source "+script+"; complete --do-complete='"+line+"'")
	}
	assert.Equal(t, "status\tshow whether the service is ready, and each worker\n", complete("codex-proxy sta"))
	assert.Equal(t, "--watch\tagain after every change, until Ctrl-C\n", complete("codex-proxy status --wa"))
	assert.Contains(t, complete("codex-proxy keys "), "revoke")
	assert.Equal(t, "alice\nbob\n", complete("codex-proxy keys --file "+withKeys(t)+" set "))
}

// The completion system of zsh works only in a terminal; _describe is the function
// of it that the script calls.
func TestZshCompletion(t *testing.T) {
	script := installed(t, "codex-proxy.zsh")
	complete := func(words string) string {
		text := "compdef() { : }\n_describe() { print -l -- ${(P)${@[-1]}} ${(P)${@[-2]}} ${(P)${@[-3]}} }\n" +
			"_arguments() { print -l -- \"$@\" }\nsource " + script + "\n" +
			"try() {\nlocal -a words=(" + words + ")\nlocal CURRENT=${#words}\n_codex-proxy\n}\ntry\n"
		return run(t, text, "zsh", "-f", "-s")
	}
	assert.Contains(t, complete("codex-proxy ''"), "status:show whether the service is ready, and each worker\n")
	assert.Contains(t, complete("codex-proxy status --"), "--watch:again after every change, until Ctrl-C\n")
	assert.Contains(t, complete("codex-proxy keys ''"), "revoke:remove a key\n")
	assert.Contains(t, complete("codex-proxy keys --file "+withKeys(t)+" revoke ''"), "alice\nbob\n")
}

func TestLicenses(t *testing.T) {
	text := file(t, "codex-proxy/doc/licenses.gz")
	assert.Contains(t, text, "\ngithub.com/godbus/dbus/v5 v")
	assert.Contains(t, text, "\nThe Go programming language\n")
	assert.Contains(t, text, "GNU C Library")
	assert.Contains(t, text, "\ndata of codex-proxy/proxy/tokens/o200k\n\nMIT License\n\nCopyright (c) 2022 OpenAI")
	assert.NotContains(t, text, "\ndata of codex-proxy/proxy/tokens\n")
}

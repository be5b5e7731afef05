package packages

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
	"codex-proxy/test/nightly"
)

// pair is a package in both formats.
type pair struct {
	name, deb, rpm string
	programs       []string // without the first slash
	// Lines of the files of settings, and those of the .deb alone.
	settings, settingsOfDeb string
	documents               []string // patterns below docs
}

// pairs are all packages, without their files.
func pairs() []pair {
	return []pair{
		{
			name: "codex-proxy",
			programs: []string{"usr/bin/codex-proxy", "usr/lib/codex-proxy/codex-proxy-broker",
				"usr/lib/codex-proxy/codex-proxy-remote-init", "usr/lib/codex-proxy/codex-proxy-traces"},
			settings: "/etc/codex-proxy/config.toml\n", settingsOfDeb: "/etc/codex-proxy/workers/default.toml\n",
			documents: []string{"*.md", "clients/*.md"},
		},
		{
			name: "codex-runner", programs: []string{"usr/bin/codex-runner", "usr/lib/codex-runner/codex-runner-unit"},
			settings: "/etc/codex-runner/runner.toml\n", documents: []string{"runner*.md"},
		},
	}
}

// built are the packages of this machine's architecture, as make test sets them.
func built(t *testing.T) []pair {
	t.Helper()
	all := pairs()
	for i, variable := range []string{"CODEX_PROXY_TEST_", "CODEX_PROXY_TEST_RUNNER_"} {
		all[i].deb, all[i].rpm = os.Getenv(variable+"DEB"), os.Getenv(variable+"RPM")
		if all[i].deb == "" || all[i].rpm == "" {
			unable(t, variable+"DEB and "+variable+"RPM are not set; `make test` sets them")
		}
	}
	return all
}

// tools skips the test where one of these programs is missing.
func tools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			unable(t, name+" is not installed; `make test` installs it")
		}
	}
}

func unable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv(machine.RequireEnv) == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func TestLint(t *testing.T) {
	t.Parallel()
	for _, p := range built(t) {
		lint(t, p)
	}
}

// lint accepts from lintian only errors and warnings overridden with a reason, and from
// rpmlint only intended ones.
func lint(t *testing.T, p pair) {
	t.Helper()
	tools(t, "lintian", "rpmlint", "cpio", "rpm2cpio")
	out, err := exec.Command("lintian", "--pedantic", "--fail-on=error,warning", p.deb).CombinedOutput()
	assert.NoError(t, err, "%s", out)

	// The paths in the archive are absolute, and rpmlint unpacks as root.
	safe := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(safe, "cpio"),
		[]byte("#!/bin/sh\nexec /usr/bin/cpio --no-absolute-filenames \"$@\"\n"), 0o755))
	cmd := exec.Command("rpmlint", "--config", "../../rpm/rpmlint.toml", p.rpm)
	cmd.Env = append(os.Environ(), "PATH="+safe+":"+os.Getenv("PATH"))
	out, _ = cmd.CombinedOutput() // fails for any error
	var tags []string
	for _, line := range strings.Split(string(out), "\n") {
		if _, tag, ok := strings.Cut(line, ": E: "); ok {
			tags = append(tags, strings.Fields(tag)[0])
		} else if strings.Contains(line, ": W: ") {
			tags = append(tags, line)
		}
	}
	slices.Sort(tags)
	want := append([]string{"no-signature"}, slices.Repeat([]string{"statically-linked-binary"}, len(p.programs))...)
	assert.Equal(t, want, tags, "%s: %s", p.name, out)
}

// The same tree in another place, at another time, and in make nightly for another architecture. The copy is Go's, which so sees what the result depends on.
func TestBuildAgain(t *testing.T) {
	t.Parallel()
	first := built(t)
	tools(t, "make", "dpkg-deb", "rpm", "aarch64-linux-gnu-gcc")
	tree := t.TempDir()
	for _, source := range []string{
		"Makefile", "go.mod", "go.sum", "README.md", "CHANGELOG.md", "LICENSE",
		"broker", "cmd", "codex", "console", "daemon", "dependencies", "internal", "notify", "probes", "proxy", "remotes", "runner", "units", "workers", "packaging", "deb", "rpm", "docs", "test",
	} {
		copyTo(t, tree, source)
	}

	t.Run("gives the same bytes", func(t *testing.T) {
		for i, second := range build(t, tree, runtime.GOARCH) {
			for _, files := range [][2]string{{first[i].deb, second.deb}, {first[i].rpm, second.rpm}} {
				assert.True(t, read(t, files[0]) == read(t, files[1]), "%s and %s differ", files[0], files[1])
			}
			staticPIE(t, second, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH])
		}
	})

	if !nightly.Is() { // it compiles everything once more
		return
	}
	t.Run("for arm64", func(t *testing.T) {
		for _, p := range build(t, tree, "arm64") {
			lint(t, p)
			staticPIE(t, p, elf.EM_AARCH64)
			assert.Equal(t, "arm64\n", output(t, "dpkg-deb", "--field", p.deb, "Architecture"))
			assert.Equal(t, "aarch64", output(t, "rpm", "--query", "--package", "--queryformat=%{arch}", p.rpm))
		}
	})
}

// copyTo copies a file or directory of this tree.
func copyTo(t *testing.T, tree, source string) {
	t.Helper()
	from, to := filepath.Join("../..", source), filepath.Join(tree, source)
	info, err := os.Stat(from)
	require.NoError(t, err)
	if info.IsDir() {
		require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, info.Mode()))
}

// build makes the packages in tree.
func build(t *testing.T, tree, arch string) []pair {
	t.Helper()
	cmd := exec.Command("make", "deb", "rpm", "ARCH="+arch)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	called := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	all := pairs()
	for i, p := range all {
		all[i].deb, all[i].rpm = only(t, tree, p.name+"_*_"+arch+".deb"), only(t, tree, p.name+"-*."+called+".rpm")
	}
	return all
}

// only is the one file that matches in the tree's build.
func only(t *testing.T, tree, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tree, "build", pattern))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// staticPIE checks the programs in the package: position independent, and without a
// loader or a library.
func staticPIE(t *testing.T, p pair, want elf.Machine) {
	t.Helper()
	tree := t.TempDir()
	output(t, "dpkg-deb", "--extract", p.deb, tree)
	for _, program := range p.programs {
		staticPIEProgram(t, filepath.Join(tree, program), want)
	}
}

func staticPIEProgram(t *testing.T, file string, want elf.Machine) {
	t.Helper()
	f, err := elf.Open(file)
	require.NoError(t, err)
	defer f.Close()
	assert.Equal(t, want, f.Machine)
	assert.Equal(t, elf.ET_DYN, f.Type)
	for _, segment := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, segment.Type)
	}
	libraries, err := f.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
	flags, err := f.DynValue(elf.DT_FLAGS_1)
	require.NoError(t, err)
	require.NotEmpty(t, flags)
	assert.NotZero(t, flags[0]&uint64(elf.DF_1_PIE), fmt.Sprint(flags))
	if want == elf.EM_X86_64 {
		const packed = elf.DynTag(36) // DT_RELR (generic ELF specification), which package elf has no name for
		relocations, err := f.DynValue(packed)
		require.NoError(t, err)
		assert.NotEmpty(t, relocations, "the relocations are not packed")
	}
}

// output is what a command prints; its warnings do not belong to it.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s%s", args, out, &stderr)
	return string(out)
}

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
)

// pair is the packages of one build.
type pair struct{ deb, rpm string }

// built are the packages of this machine's architecture, as make test sets them.
func built(t *testing.T) pair {
	t.Helper()
	p := pair{os.Getenv("CODEX_PROXY_TEST_DEB"), os.Getenv("CODEX_PROXY_TEST_RPM")}
	if p.deb == "" || p.rpm == "" {
		unable(t, "CODEX_PROXY_TEST_DEB and CODEX_PROXY_TEST_RPM are not set; `make test` sets them")
	}
	return p
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
	lint(t, built(t))
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
	assert.Equal(t, []string{"no-signature", "statically-linked-binary", "statically-linked-binary"}, tags, "%s", out)
}

// The same tree in another place, at another time.
func TestBuildAgain(t *testing.T) {
	t.Parallel()
	first := built(t)
	tools(t, "make", "cp", "dpkg-deb", "rpm", "aarch64-linux-gnu-gcc")
	tree := t.TempDir()
	for _, source := range []string{
		"Makefile", "go.mod", "go.sum", "README.md", "CHANGELOG.md", "LICENSE",
		"cmd", "internal", "notify", "units", "probes", "proxy", "packaging", "deb", "rpm", "docs", "test",
	} {
		output(t, "cp", "--recursive", "../../"+source, tree)
	}

	t.Run("gives the same bytes", func(t *testing.T) {
		second := build(t, tree, runtime.GOARCH)
		for _, files := range [][2]string{{first.deb, second.deb}, {first.rpm, second.rpm}} {
			assert.True(t, read(t, files[0]) == read(t, files[1]), "%s and %s differ", files[0], files[1])
		}
		staticPIE(t, second, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH])
	})

	t.Run("for arm64", func(t *testing.T) {
		p := build(t, tree, "arm64")
		lint(t, p)
		staticPIE(t, p, elf.EM_AARCH64)
		assert.Equal(t, "arm64\n", output(t, "dpkg-deb", "--field", p.deb, "Architecture"))
		assert.Equal(t, "aarch64", output(t, "rpm", "--query", "--package", "--queryformat=%{arch}", p.rpm))
	})
}

// build makes the packages in tree.
func build(t *testing.T, tree, arch string) pair {
	t.Helper()
	cmd := exec.Command("make", "deb", "rpm", "ARCH="+arch)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	called := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	return pair{only(t, tree, "*_"+arch+".deb"), only(t, tree, "*."+called+".rpm")}
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
	for _, program := range []string{"usr/bin/codex-proxy", "usr/lib/codex-proxy/codex-proxy-traces"} {
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

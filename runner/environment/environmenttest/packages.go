// Package environmenttest makes packages of Python and npm, and stores of them, for tests of environments and set-ups.
package environmenttest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write makes a directory with the files.
func Write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	return dir
}

// Store makes a store of packages with its sums.
func Store(t *testing.T, files map[string]string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256([]byte(files[name])), name)
	}
	files = maps.Clone(files)
	files["SHA256SUMS"] = b.String()
	return Write(t, files)
}

// Wheel is a package of Python with a module and a program of its name.
func Wheel(t *testing.T, name, version string) map[string]string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	record := ""
	for _, f := range [][2]string{
		{name + ".py", "def main(): print('" + name + " " + version + "')\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "entry_points.txt", "[console_scripts]\n" + name + " = " + name + ":main\n"},
		{info + "RECORD", ""},
	} {
		w, err := z.Create(f[0])
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(f[1]))
		record += f[0] + ",sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]) + "," + fmt.Sprint(len(f[1])) + "\n"
		if f[1] == "" {
			f[1] = record
		}
		_, err = w.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return map[string]string{name + "-" + version + "-py3-none-any.whl": b.String()}
}

// Tarball is a compressed archive.
func Tarball(t *testing.T, files map[string]string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}))
		_, err := w.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.String()
}

// Tool returns the file that the variable names. Without one the test is skipped, or fails where nothing may be
// missing.
func Tool(t *testing.T, variable string) string {
	t.Helper()
	file := os.Getenv(variable)
	if file == "" {
		if os.Getenv("CODEX_PROXY_TEST_REQUIRE") == "1" {
			t.Fatal(variable + " is not set; `make test` sets it")
		}
		t.Skip(variable + " is not set; `make test` sets it")
	}
	return file
}

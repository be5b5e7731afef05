// Package codexes names the codexes of the tests: the pinned one, the oldest that the product accepts, and those between,
// which run by night.
package codexes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/codex/versions"
	"codex-proxy/test/nightly"
)

// Pinned is the version of the codex that all tests run. Without it, it skips the test.
func Pinned(t *testing.T) string {
	t.Helper()
	codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
	if codex == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	return version(t, codex)
}

// All are their programs by version: that of each environment variable that `make` sets. Without any, it skips the test.
func All(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, variable := range []string{"CODEX_PROXY_TEST_CODEX", "CODEX_PROXY_TEST_CODEX_OLDEST"} {
		if codex := os.Getenv(variable); codex != "" {
			all[version(t, codex)] = codex
		}
	}
	if dir := os.Getenv("CODEX_PROXY_TEST_CODEX_BETWEEN"); dir != "" {
		between, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
		require.NoError(t, err)
		for _, codex := range between {
			all[filepath.Base(codex)] = codex
		}
	}
	if len(all) == 0 {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	return all
}

// Each runs a test with each of them from 0.oldest on, with the minor version and the program: by day with the ends of
// that range, in `make nightly` with those between, too.
func Each(t *testing.T, oldest int, test func(t *testing.T, minor int, program string)) {
	t.Helper()
	all, minors := All(t), map[int]string{}
	for version := range all {
		minor := 0
		_, err := fmt.Sscanf(version, "0.%d.", &minor)
		require.NoError(t, err)
		if minor >= oldest {
			minors[minor] = version
		}
	}
	sorted := slices.Sorted(maps.Keys(minors))
	for i, minor := range sorted {
		if i > 0 && i < len(sorted)-1 && !nightly.Is() {
			continue
		}
		version := minors[minor]
		t.Run(version, func(t *testing.T) { test(t, minor, all[version]) })
	}
}

// Older runs tests of a package, which run the pinned codex by themselves, with the others of Each.
func Older(t *testing.T, oldest int, tests map[string]func(*testing.T)) {
	t.Helper()
	Each(t, oldest, func(t *testing.T, minor int, program string) {
		if minor == versions.Tested {
			return
		}
		t.Setenv("CODEX_PROXY_TEST_CODEX", program)
		for _, name := range slices.Sorted(maps.Keys(tests)) {
			t.Run(name, tests[name])
		}
	})
}

func version(t *testing.T, codex string) string {
	t.Helper()
	v, err := Version(codex)
	require.NoError(t, err)
	return v
}

// Version reads the version from npm's package that the program is of.
func Version(codex string) (string, error) {
	program, err := filepath.EvalSymlinks(codex)
	if err != nil {
		return "", err
	}
	root, _, _ := strings.Cut(program, "/vendor/")
	text, err := os.ReadFile(filepath.Join(root, "package.json"))
	if err != nil {
		return "", err
	}
	var about struct{ Version string }
	if err := json.Unmarshal(text, &about); err != nil {
		return "", err
	}
	number, _, _ := strings.Cut(about.Version, "-")
	return number, nil
}

// AppServer are the arguments with which the tests run a codex as a server at a socket. Their settings are those of the
// newest tested codex: an older one passes over what it does not know.
func AppServer(codex, socket string) []string {
	args := []string{"app-server", "--listen", "unix://" + socket}
	if v, err := Version(codex); err == nil && strings.HasPrefix(v, fmt.Sprintf("0.%d.", versions.Tested)) {
		args = append(args, "--strict-config")
	}
	return args
}

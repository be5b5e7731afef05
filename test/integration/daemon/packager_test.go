package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// rpm is rpm(8), with a next package.
func rpm(t *testing.T) bed.Packager {
	p := bed.RpmCommand()
	require.NotEmpty(t, p.Now, "CODEX_PROXY_TEST_RPM is not set; `make test` sets it")
	version := regexp.MustCompile(`-([0-9.]+)-1\.`)
	p.Next = version.ReplaceAllString(p.Now, "-9.0-1.")
	top, err := filepath.Abs("../../..")
	require.NoError(t, err)
	file, err := filepath.Rel(top, p.Next)
	require.NoError(t, err)
	build := exec.Command("make", "--no-print-directory", "--silent", file, "VERSION=9.0",
		"PROGRAM_VERSION="+version.FindStringSubmatch(p.Now)[1])
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return p
}

package machine

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fixedPort is a call that uses a port of the host by its number. In the network of
// a machine, by the machine's own methods, every port is free.
var fixedPort = regexp.MustCompile(`\b(?:net\.(?:Dial|Listen)\w*|http\.(?:Get|Post|Head|ListenAndServe))` +
	`\([^\n]*"[^"\n]*:[1-9][0-9]*[/"]`)

// Tests use only free ports of the host: two runs of them, and `make run`, share it.
func TestNoFixedPortsOfTheHost(t *testing.T) {
	assert.Regexp(t, fixedPort, `_, err = net.Dial("tcp", "127.0.0.1:8787")`)
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "ports_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		assert.Empty(t, fixedPort.FindAllString(string(text), -1), path)
		return err
	}))
}

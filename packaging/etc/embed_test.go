package etc

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// made lists every file of this module in the program.
const made = `{{if and .Module .Module.Main}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .CgoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}`

// The Makefile lists every source, so that each change builds the program again.
func TestTheMakefileKnowsAllSources(t *testing.T) {
	run := func(name string, args ...string) []string {
		cmd := exec.Command(name, args...)
		cmd.Dir = "../.."
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	root := run("go", "list", "-m", "-f", "{{.Dir}}")[0] + "/"
	known := run("make", "-s", "--eval=known: ; @printf '%s\\n' $(SRC)", "known")
	for _, file := range run("go", "list", "-deps", "-f", made, "./cmd/codex-proxy") {
		assert.Contains(t, known, strings.TrimPrefix(file, root))
	}
}

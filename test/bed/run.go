package bed

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Running is a `make run`.
type Running struct {
	Bed   *Bed
	Lines *bufio.Scanner
	Done  chan error
}

// Until returns the output up to the line with text.
func (r *Running) Until(t *testing.T, text string) string {
	t.Helper()
	var output strings.Builder
	for r.Lines.Scan() {
		output.WriteString(r.Lines.Text() + "\n")
		if strings.Contains(r.Lines.Text(), text) {
			return output.String()
		}
	}
	require.Fail(t, "ended without "+text, output.String())
	return ""
}

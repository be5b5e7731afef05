package broker_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// startChild runs a script with the file as its descriptor 3.
func startChild(t *testing.T, script string, file *os.File) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return cmd
}

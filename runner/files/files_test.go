package files

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// A command that was lost with the host leaves the question to root, and any end that is known answers it.
func TestWorkspace(t *testing.T) {
	const id = "abcdefghijklmno2"
	made, failed := session.Result{Version: session.Version, Exited: true},
		session.Result{Version: session.Version, Failure: &session.Failure{Stage: session.WorkspaceTask}}
	rejected := session.Result{Version: session.Version, Failure: &session.Failure{Stage: session.PatchTask}}
	killed := session.Ended{Version: session.Version, ExitCode: "killed"}
	for _, c := range []struct {
		commands []any // each the last file of a command
		want     Workspace
	}{
		{nil, NotMade}, {[]any{"queued"}, NotMade}, {[]any{"lost"}, Unknown}, {[]any{made}, Made}, {[]any{failed}, NotMade},
		{[]any{rejected}, NotMade}, {[]any{rejected, made}, Made},
		{[]any{killed}, Made}, {[]any{made, "lost"}, Made}, {[]any{failed, "lost"}, NotMade},
		{[]any{"lost", "lost"}, Unknown},
		{[]any{"lost", made}, Made},
	} {
		f := Files{StateDir: t.TempDir()}
		for i, left := range c.commands {
			require.NoError(t, os.MkdirAll(f.Command(id, i+1), 0o700))
			write := func(name string, text []byte, err error) {
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(f.Path(id, i+1, name), text, 0o600))
			}
			switch left := left.(type) {
			case session.Result:
				text, err := session.Encode(&left)
				write(paths.Result, text, err)
			case session.Ended:
				text, err := session.Encode(&left)
				write(paths.Ended, text, err)
			case string:
				if left == "lost" {
					write(paths.Output, nil, nil)
					write(paths.Result, nil, nil)
				}
			}
		}
		assert.Equal(t, c.want, f.Workspace(id, len(c.commands)+1), c.commands)
	}
}

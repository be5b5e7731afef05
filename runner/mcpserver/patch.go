package mcpserver

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/patch"
)

var patchTool = mcp.Tool{
	Name: "patch", Title: "Apply a patch to a workspace", Annotations: changing,
	Description: `Applies a diff to the workspace of a session, wholly or not at all, as the next command of the session.
The command fails with the hunk if the diff does not fit, and changes nothing if it is applied already. To begin a session
with a patch, pass it to run.`,
}

type patchInput struct {
	Session string `json:"session" jsonschema:"the ID of the session"`
	Patch   string `json:"patch" jsonschema:"the diff, as git diff prints it; paths begin with a/ and b/"`
	Wait    string `json:"wait,omitempty" jsonschema:"how long this call waits for the end at most; 45s without it"`
}

// applying is the command that applies a patch. Its input is the patch.
const applying = `p=$(mktemp) && cat >"$p" || exit
if git apply --reverse --check "$p" 2>/dev/null; then
	echo "The patch is applied already; nothing was changed."
else
	git apply --verbose --whitespace=nowarn "$p"
fi`

func (s *Server) patch(ctx context.Context, c *call, in patchInput) (report, error) {
	b, err := bounded(in.Wait, defaultWait, 0)
	if err != nil {
		return report{}, err
	}
	if in.Session == "" {
		return report{}, errors.New("session is empty: run makes one")
	}
	if _, err := patch.Parse([]byte(in.Patch)); err != nil {
		return report{}, err
	}
	return s.next(ctx, c, in.Session, wire.NewCommand{Args: []string{"sh", "-c", applying}, Stdin: true}, in.Patch, b)
}

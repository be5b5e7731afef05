package dependencies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// A server of MCP by the preset, with npm's reference server: it starts with the native
// worker that requires it, codex calls its tools, the check leaves no session behind, and a
// hang ends.
func TestDependencyMCP(t *testing.T) {
	t.Parallel()
	testDependencyMCP(t, bed.Oldest)
}

func testDependencyMCP(t *testing.T, suite string) {
	binds, node := bed.NodeClients(t)
	worker := "requires = [\"everything\"]\n" + bed.NativeWorker() +
		"[codex.mcp_servers.everything]\nurl = \"http://127.0.0.1:8000/mcp\"\n"
	b := bed.New(t, suite, worker, "", binds...)
	d := preset(b, "everything", "mcp",
		`"/usr/local/bin/mcp-server", "--transport", "streamable-http", "--host", "127.0.0.1", "--port", "8000"`,
		fmt.Sprintf("%q, %q, %q", node,
			bed.ClientsDir+"/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"),
		"# environment = {}", `environment = { PORT = "8000" }`, `# interval = "5s"`, `interval = "1s"`)
	b.Start() // with the dependency
	require.Equal(t, "active", b.Properties(d.Unit, "ActiveState")["ActiveState"])
	echo := func(text string) {
		t.Helper()
		before := len(b.Models.Turns())
		call := fmt.Sprintf("await tools.mcp__everything__echo({message: %q})", text)
		status, _, answer := b.Chat(false, "[[custom exec text(JSON.stringify("+call+"))]]")
		require.Equal(t, http.StatusOK, status, answer)
		turns := b.Models.Turns()[before:]
		require.Len(t, turns, 2, "the call, and its output")
		assert.Contains(t, string(turns[1].Body.Input[len(turns[1].Body.Input)-1]), "Echo: "+text)
	}
	echo("one")

	sessions := strings.Count(b.UnitJournal(d.Unit), "Session initialized")
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	asked := func() int { return strings.Count(b.UnitJournal(d.Unit), "Received MCP GET request") }
	for goal, pace := asked()+3, (await.Pace{}); asked() < goal; pace.Pause(ctx) {
		require.NoError(t, ctx.Err(), b.UnitJournal(d.Unit))
	}
	assert.Equal(t, sessions, strings.Count(b.UnitJournal(d.Unit), "Session initialized"))

	run, at := d.RunID(), clock()
	b.Signal(serverProcess(d), unix.SIGSTOP)
	t.Logf("hang to ready: %s", d.ReadyAgain(run)-at)
	echo("two")
}

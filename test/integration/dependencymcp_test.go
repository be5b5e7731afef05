package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A server of MCP by the preset, with npm's reference server: it starts with the native
// worker that requires it, codex calls its tools, the check leaves no session behind, and a
// hang ends.
func TestDependencyMCP(t *testing.T) { bothSuites(t, testDependencyMCP) }

func testDependencyMCP(t *testing.T, suite string) {
	binds, node := nodeClients(t)
	worker := "requires = [\"everything\"]\n" + nativeWorker() +
		"[codex.mcp_servers.everything]\nurl = \"http://127.0.0.1:8000/mcp\"\n"
	b := newBed(t, suite, worker, "", binds...)
	d := b.preset("everything", "mcp",
		`"/usr/local/bin/mcp-server", "--transport", "streamable-http", "--host", "127.0.0.1", "--port", "8000"`,
		fmt.Sprintf("%q, %q, %q", node,
			clientsDir+"/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"),
		"# environment = {}", `environment = { PORT = "8000" }`, `# interval = "5s"`, `interval = "1s"`)
	b.start() // with the dependency
	require.Equal(t, "active", b.show(d.unit, "ActiveState")["ActiveState"])
	echo := func(text string) {
		t.Helper()
		before := len(b.models.Turns())
		call := fmt.Sprintf("await tools.mcp__everything__echo({message: %q})", text)
		status, _, answer := b.chat(false, "[[custom exec text(JSON.stringify("+call+"))]]")
		require.Equal(t, http.StatusOK, status, answer)
		turns := b.models.Turns()[before:]
		require.Len(t, turns, 2, "the call, and its output")
		assert.Contains(t, string(turns[1].Body.Input[len(turns[1].Body.Input)-1]), "Echo: "+text)
	}
	echo("one")

	sessions := strings.Count(b.journal(d.unit), "Session initialized")
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	asked := func() int { return strings.Count(b.journal(d.unit), "Received MCP GET request") }
	for goal := asked() + 3; asked() < goal; {
		require.NoError(t, ctx.Err(), b.journal(d.unit))
		pause(ctx, 20*time.Millisecond)
	}
	assert.Equal(t, sessions, strings.Count(b.journal(d.unit), "Session initialized"))

	run, at := d.run(), clock()
	b.signal(d.server(), unix.SIGSTOP)
	t.Logf("hang to ready: %s", d.readyAgain(run)-at)
	echo("two")
}

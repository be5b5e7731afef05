package runner

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// codexModel is a model to which codex gives one tool, which runs JavaScript: one answer calls several tools.
const codexModel = "gpt-5.6-sol"

// agentConfig is the configuration of the codex CLI, without the lines of docs/runner.md.
const agentConfig = `model = "` + codexModel + `"
model_provider = "scripted"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[tui]
show_tooltips = false
[model_providers.scripted]
name = "scripted"
base_url = "http://` + bed.ModelAddr + `/v1"
wire_api = "responses"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
`

// agentCalls is what the model has codex do: a session over several calls. The first line has codex wait for their end.
// A command that runs has its time from its start.
const agentCalls = `// @exec: {"yield_time_ms": 110000}
const said = [];
const call = async (tool, args) => {
	const r = await tools["mcp__runner__" + tool](args);
	const got = r.structuredContent ?? JSON.parse(r.content[0].text);
	said.push([tool, got.state, got.outcome?.outcome ?? "-", (got.output ?? "").trim()].join("|"));
	return got;
};
const first = await call("run", {command: ["sh", "-c", "echo one >file; cat file; exit 3"]});
const session = first.session;
await call("patch", {session, patch: "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+two\n"});
await call("patch", {session, patch: "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-one\n+two\n"});
await call("patch", {session, patch: "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-other\n+three\n"});
await call("run", {session, command: ["cat", "file"], memory: "64M", timeout: "1m"});
const long = await call("run", {session, command: ["sh", "-c", "echo begun; exec sleep 4321"], wait: "0s"});
for (let seen = {}; !(seen.output_bytes > 0 && seen.seconds >= 1); seen = await call("logs", {session, wait: "1s"}));
await call("cancel", {session});
text("session " + session + "\n" + said.join("\n"));`

// agents has the real codex CLI run, patch, read and cancel as alice, by the tools of codex-runner mcp.
func (b *manualBed) agents(t *testing.T) {
	l, err := b.Listen("tcp", bed.ModelAddr)
	require.NoError(t, err)
	models := modelserver.StartOn(t, l, codexModel)
	config := agentConfig + b.manual.File(".codex/config.toml")
	require.NoError(t, b.WriteFile("/home/alice/.codex/config.toml", []byte(config), 0o600))
	b.MustRun(t, "chown", "-R", "alice:alice", "/home/alice/.codex")
	require.NoError(t, models.Script("custom exec "+agentCalls))
	require.NoError(t, models.Script("text done"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
	defer cancel()
	stdout, stderr, err := b.Run(ctx, "runuser", "-u", "alice", "--", "env", "HOME=/home/alice", bed.CodexDir+"/bin/codex", "exec",
		"--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", "/tmp", "work")
	require.NoError(t, err, "%s\n%s", stdout, stderr)
	turns := models.Turns()
	require.Len(t, turns, 2, stderr)
	var item struct {
		Output []struct{ Text string }
	}
	last := turns[1].Body.Input[len(turns[1].Body.Input)-1]
	require.NoError(t, json.Unmarshal(last, &item), string(last))
	said := item.Output[len(item.Output)-1].Text
	assert.Regexp(t, `^session [a-z2-7]{16}
run\|ended\|failed\|one
patch\|ended\|succeeded\|Checking patch file...
Applied patch file cleanly.
patch\|ended\|succeeded\|The patch is applied already; nothing was changed.
patch\|ended\|failed\|Checking patch file...
error: while searching for:
other

error: patch failed: file:1
error: file: patch does not apply
run\|ended\|succeeded\|two
run\|[a-z]+\|-\|.*
(?:logs\|[a-z]+\|-\|.*
)*logs\|running\|-\|begun
cancel\|ended\|cancelled\|begun$`, said)
	id := strings.Fields(said)[1]
	var shown string
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(t.Context()) { // it closes with codex's server of tools
		shown = b.MustRun(t, "codex-runner", "show", id)
		if strings.Contains(shown, id+", closed, of alice") {
			break
		}
		require.True(t, time.Now().Before(deadline), shown)
	}
	assert.Contains(t, shown, "cancelled by alice")
}

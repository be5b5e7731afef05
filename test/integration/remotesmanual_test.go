package integration

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
)

// Every block of commands in docs/remotes.md works unchanged.
func TestRemotesManual(t *testing.T) { bothSuites(t, testRemotesManual) }

func testRemotesManual(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "install", "-d", "-o", "alice", "/srv/app")
	require.NoError(t, b.models.Script("text the tests pass"))
	b.follow(manual.Open(t, "docs/remotes.md"))
	assert.Contains(t, string(b.models.Turns()[0].Body.Raw), "run the tests again")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "There are no remotes")
	assert.NotEmpty(t, b.find("/var/lib/codex-remote/build/", "-name", "rollout-*"), "its threads stay")
}

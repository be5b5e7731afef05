package remotes

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
)

// Every block of commands in docs/remotes.md works unchanged.
func TestRemotesManual(t *testing.T) { bed.BothSuites(t, testRemotesManual) }

func testRemotesManual(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex") // as npm install -g does
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "install", "-d", "-o", "alice", "/srv/app")
	require.NoError(t, b.Models.Script("text the tests pass"))
	b.FollowManual(manual.Open(t, "docs/remotes.md"))
	assert.Contains(t, string(b.Models.Turns()[0].Body.Raw), "run the tests again")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "There are no remotes")
	assert.NotEmpty(t, bed.Find(b, "/var/lib/codex-remote/build/", "-name", "rollout-*"), "its threads stay")
}

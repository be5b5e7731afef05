package remotes

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// A user without a login works with accounts of codex-proxy: the quota of one ends in a turn, which goes on with the
// next one; a turn without an account that has quota waits for it. No login gets into the home, and none is lent
// without root's word.
func TestHereAccounts(t *testing.T) { bed.EitherSuite(t, testHereAccounts) }

func testHereAccounts(t *testing.T, suite string) {
	b := bed.NewOn(t, people(suite), bed.AccountWorker, "[accounts]\nrotation = \"ordered\"\norder = [\"a\", \"b\"]\n")
	a := bed.WithAccounts(b, bed.AccountWorker, "a", "b")
	config, _, _ := strings.Cut(aliceConfig, "[model_providers")
	addAlice(b, strings.Replace(config, `model_provider = "scripted"`+"\n", "", 1))
	a.DropIn("codex-user@.service", "openai", "[Service]\nEnvironment=SSL_CERT_FILE="+bed.Authority+"\n")
	a.Start()
	a.UntilWorkersReady()
	enableHere(b)
	lend(b, "--lend", "all")

	answer := func(word string, steps ...string) {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: word, Times: -1, Steps: steps}))
	}
	answer("a long one", "text it begins", "gate rest", `call exec_command {"cmd":"echo GO-ON"}`)
	answer("GO-ON", "text and ends")
	term := bareCodex(b, "one", "codex", "one")
	term.Until("Ask Codex")
	term.Enter("a long one")
	term.Until("it begins")
	assert.Equal(t, "a", hereStatus(b).Account)
	a.Server.Account("a").Exhaust(time.Now().Add(time.Hour))
	b.Models.Release("rest")
	term.Until("and ends")
	untilTurns(b, 0)
	assert.Equal(t, "b", hereStatus(b).Account)
	_, refused := turnsOf(a, "a")
	assert.Equal(t, 1, refused)

	lend(b, "--lend", "a")
	answer("a second one", "text it is served")
	for deadline := time.Now().Add(bed.Bound); len(hereStatus(b).Attached) == 0; bed.Pause(t.Context(), 100*time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "the terminal does not come back")
	}
	term.Enter("a second one")
	term.Until("goes on by itself when an account has quota")
	a.Server.Account("a").Reset()
	term.Until("it is served")
	untilTurns(b, 0)

	_, _, err := b.Run(t.Context(), "grep", "-rqs", "SECRET", "/home/alice", "/var/lib/codex-user", "/var/lib/codex-here")
	require.Error(t, err, "a login is in a file")
	b.MustRun(t, "test", "!", "-e", "/home/alice/.codex/auth.json")
	out, stderr, err := b.Run(t.Context(), "su", "-", "alice", "-c", "cat /proc/"+b.Properties(aliceUnit, "MainPID")["MainPID"]+"/environ")
	require.Error(t, err, "%s %s", out, stderr)
	assert.NotContains(t, a.UnitJournal(aliceUnit)+a.UnitJournal("codex-proxy.service"), "SECRET")

	lend(b, "--own")
	assert.Empty(t, hereStatus(b).Account)
	b.MustRun(t, "codex-proxy", "here", "disable", "alice")
	assert.Empty(t, bed.Find(b, "/etc/systemd/system", "-path", "*codex-user@alice*"))
}

// lend changes the login of alice's codex, and waits until the unit has taken the change.
func lend(b *bed.Bed, option ...string) {
	b.T.Helper()
	pid := b.Properties(aliceUnit, "MainPID")["MainPID"]
	b.MustRun(b.T, append([]string{"codex-proxy", "here", "accounts", "alice"}, option...)...)
	for deadline := time.Now().Add(bed.Bound); ; bed.Pause(b.T.Context(), 200*time.Millisecond) {
		now := b.Properties(aliceUnit, "MainPID", "ActiveState")
		if now["MainPID"] != pid && now["ActiveState"] == "active" {
			break
		}
		require.True(b.T, time.Now().Before(deadline), "the unit does not take the change: %v", now)
	}
	untilTurns(b, 0)
}

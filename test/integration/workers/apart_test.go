package workers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// longName is the longest that a worker may have. Its user has a shorter one.
const longName = "a-worker-whose-name-is-as-long-as-a-name-may-be-that-is-64-chars"

// A worker, or a tool in it, reaches nothing of another worker: no login, home, socket
// or memory, and cannot trace or kill it.
func TestWorkersApart(t *testing.T) { bed.BothSuites(t, testWorkersApart) }

func testWorkersApart(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.PlainWorker, "")
	bed.StartOpenAI(b)
	bed.LogIn(b, "default", "sk-first-SECRET")
	b.Start()
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	require.NoError(t, b.WriteFile("/etc/credential", []byte("credential-SECRET"), 0o600))
	for _, name := range []string{"second", longName} {
		b.MustRun(t, "codex-proxy", "accounts", "add", name)
		b.DropIn("codex-worker@"+name+".service", "credential", "[Service]\nLoadCredential=key:/etc/credential\n")
		b.MustRun(t, "systemctl", "daemon-reload")
		bed.LogIn(b, name, "sk-"+name+"-SECRET")
	}
	first := bed.InWorker(b, "default")
	for _, name := range []string{"second", longName} {
		other := bed.InWorker(b, name)
		require.NotEqual(t, first.UID, other.UID)
		assertCutOff(first, name, other)
		assertCutOff(other, "default", first)
	}
	_, stderr, err := b.Run(t.Context(), append(places(first)["in its unit"], "touch", "/run/lock/mark")...)
	require.Error(t, err)
	assert.Contains(t, stderr, "Read-only file system")
	assert.Equal(t, "cw-default", b.Properties(bed.WorkerUnit, "User")["User"])
	assert.Regexp(t, "^cw-[0-9a-f]{28}$", b.Properties("codex-worker@"+longName+".service", "User")["User"])
	assert.Empty(t, bed.Find(b, "/", "-xdev", "-user", "codex-worker"),
		"the user of codex outside of units owns nothing")
	bed.DoctorFindsNothing(b)
}

// places are the ways to run a command as the worker's user.
func places(in bed.Inside) map[string][]string {
	as := []string{"setpriv", "--reuid=" + in.UID, "--regid=" + in.UID, "--groups=" + gid(in.Bed, "codex-worker"),
		"--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"}
	return map[string][]string{
		"in the machine": as,
		"in its unit":    append([]string{"nsenter", fmt.Sprintf("--target=%d", in.Codex), "--mount", "--"}, as...),
	}
}

func gid(b *bed.Bed, group string) string {
	b.T.Helper()
	return strings.Split(b.MustRun(b.T, "getent", "group", group), ":")[2]
}

// assertCutOff tries to reach the other worker. Each attempt works on the worker itself,
// from its unit.
func assertCutOff(in bed.Inside, name string, other bed.Inside) {
	in.T.Helper()
	for attempt, command := range bed.Attempts(name, other) {
		for place, as := range places(in) {
			out, _, err := in.Run(in.T.Context(), append(as, command...)...)
			assert.Error(in.T, err, "%s of %s, by %s %s: %s", attempt, name, in.Name, place, out)
			assert.NotContains(in.T, out, "SECRET")
		}
	}
	for attempt, command := range bed.Attempts(in.Name, in) {
		if strings.HasPrefix(attempt, "never ") {
			continue
		}
		_, stderr, err := in.Run(in.T.Context(), append(places(in)["in its unit"], command...)...)
		assert.NoError(in.T, err, "%s of itself, by %s: %s", attempt, in.Name, stderr)
	}
}

package paths

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The unit file has the same names.
func TestUnitHasThesePaths(t *testing.T) {
	text, err := os.ReadFile("../../packaging/systemd/" + SessionUnit(""))
	require.NoError(t, err)
	for _, line := range []string{
		"ExecStartPre=+" + UnitProgram + " session-prepare %i",
		"ExecStart=/usr/bin/env --block-signal=RTMIN+2 " + UnitProgram + " session-exec",
		"ExecStopPost=+" + UnitProgram + " session-ended %i",
		"StateDirectory=" + strings.TrimPrefix(SessionStates, "/var/lib/") + "/%i",
		"BindReadOnlyPaths=-" + Sessions + "/%i/" + CredentialsName + ":" + Credentials,
		"Environment=CREDENTIALS_DIRECTORY=" + Credentials,
		"BindPaths=-" + Sessions + "/%i/" + WorkspaceLink + ":" + Workspace,
		"BindPaths=-" + Sessions + "/%i/" + HomeLink + ":" + Home,
		"Environment=HOME=" + Home,
		"BindReadOnlyPaths=-" + Sessions + "/%i/" + RepositoryLink + ":" + Repository,
		"BindReadOnlyPaths=-" + Sessions + "/%i/" + EnvironmentsLink + ":" + Environments,
		"WorkingDirectory=-" + Workspace,
		"InaccessiblePaths=-" + StateDir + " -" + Run + " -" + Sessions + " -" + Repositories + " -" + Workspaces,
	} {
		assert.Contains(t, string(text), "\n"+line+"\n")
	}
}

// So have those of the jobs.
func TestJobsHaveThesePaths(t *testing.T) {
	for unit, lines := range map[string][]string{
		RepositoryUnit(""): {
			"ExecStartPre=+" + UnitProgram + " repository-prepare %i",
			"ExecStart=" + UnitProgram + " repository-fetch",
			"StateDirectory=" + strings.TrimPrefix(RepositoryStates, PrivateStates+"/") + "/%i",
			"ExecStopPost=+" + UnitProgram + " repository-fetched %i",
			"BindReadOnlyPaths=-" + Repositories + "/%i/" + CredentialsName + ":" + Credentials,
			"Environment=CREDENTIALS_DIRECTORY=" + Credentials,
		},
		EnvironmentUnit(""): {
			"ExecStartPre=+" + UnitProgram + " environment-prepare %i",
			"ExecStart=" + UnitProgram + " environment-build %i",
			"ExecStopPost=+" + UnitProgram + " environment-publish %i",
			"StateDirectory=codex-environment-build/%i",
			"BindPaths=-" + Sessions + "/" + BuildDir("%i") + "/" + EnvironmentsLink + ":" + Environments,
		},
		strings.Replace(SweepUnit("", ""), "-.service", ".service", 1): {"ExecStart=" + UnitProgram + " sweep %i"},
	} {
		text, err := os.ReadFile("../../packaging/systemd/" + unit)
		require.NoError(t, err)
		for _, line := range lines {
			assert.Contains(t, string(text), "\n"+line+"\n", unit)
		}
	}
}

// The socket lies outside of what the service may write.
func TestServiceHasThesePaths(t *testing.T) {
	for unit, lines := range map[string][]string{
		"codex-runner.socket": {"ListenStream=" + Socket},
		"codex-runner.service": {"StateDirectory=" + strings.TrimPrefix(StateDir, "/var/lib/"),
			"RuntimeDirectory=" + strings.TrimPrefix(RuntimeDir, "/run/")},
	} {
		text, err := os.ReadFile("../../packaging/systemd/" + unit)
		require.NoError(t, err)
		for _, line := range lines {
			assert.Contains(t, string(text), "\n"+line+"\n", unit)
		}
	}
	assert.NotContains(t, Socket, RuntimeDir)
}

func TestCheckKey(t *testing.T) {
	require.NoError(t, CheckKey(Key("https://example.org/x")))
	for _, key := range []string{"", "0123456789abcde", "0123456789abcdeg", "../../etc/passwd", "0123456789abcdef\n"} {
		assert.ErrorContains(t, CheckKey(key), "is no key", "%q", key)
	}
}

// The user of a build is named after the instance of its unit: ce-INSTANCE.
func TestEnvironmentKeys(t *testing.T) {
	key := strings.Repeat("0123456789abcdef", 4)
	require.NoError(t, CheckEnvironment(key))
	require.NoError(t, CheckEnvironmentInstance(EnvironmentInstance(key)))
	assert.LessOrEqual(t, len("ce-"+EnvironmentInstance(key)), 31)
	for _, key := range []string{"", key[:16], key[1:], key + "0", "../../etc/passwd", key[:63] + "\n"} {
		require.ErrorContains(t, CheckEnvironment(key), "is no key", "%q", key)
		require.ErrorContains(t, CheckEnvironmentInstance(key), "is no build", "%q", key)
	}
	for _, owner := range []string{"0", "4294967295", Shared} {
		require.NoError(t, CheckOwner(owner))
	}
	for _, owner := range []string{"", "alice", "..", "1/..", "-1", "12345678901"} {
		require.ErrorContains(t, CheckOwner(owner), "owns no environments", "%q", owner)
	}
}

func TestCheckID(t *testing.T) {
	require.NoError(t, CheckID("abcdefghijklmno2"))
	for _, id := range []string{"", "abcdefghijklmno", "abcdefghijklmno22", "abcdefghijklmno1", "ABCDEFGHIJKLMNO2",
		"../../etc/passwd", "abcdefghijklmn/2", "abcdefghijklmno2\n", "abcdefghijklmn.2"} {
		assert.ErrorContains(t, CheckID(id), "is no session", "%q", id)
	}
}

func TestParseCommand(t *testing.T) {
	n, err := ParseCommand("12")
	require.NoError(t, err)
	assert.Equal(t, 12, n)
	assert.Equal(t, "sessions/x/12", CommandDir("x", n))
	for _, text := range []string{"", "0", "-1", "+1", "01", "1 ", "1\n", "../1", "1000001", "99999999999999999999"} {
		_, err := ParseCommand(text)
		assert.ErrorContains(t, err, "is not the number of a command", "%q", text)
	}
}

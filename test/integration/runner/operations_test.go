package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// TestRunnerOperations looks at codex-runner as its operator does.
func TestRunnerOperations(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite, "git", "python3", "python3-pip")
		catalogue := "/usr/lib/systemd/catalog/codex-runner.catalog"
		require.NoError(t, b.CopyIn("../../../packaging/journal/codex-runner.catalog", catalogue))
		b.MustRun(t, "journalctl", "--update-catalog")
		b.MustRun(t, "useradd", "bob")
		b.MustRun(t, "systemctl", "enable", "--now", runnerSocket, runnerService)
		s := b.create(script("echo out; exit 3"))
		_, c := b.follow(s.ID, 1)
		require.Equal(t, ends.Failed, c.Outcome.Word)

		t.Run("journal", func(t *testing.T) {
			b.MustRun(t, "journalctl", "--sync")
			text := b.MustRun(t, "journalctl", "--no-pager", "-x", "CODEX_SESSION="+s.ID)
			for _, want := range []string{
				"a session was made", "a command has started", "a command has ended", "outcome=failed",
				"A command of a session has ended", "codex-runner show " + s.ID,
			} {
				assert.Contains(t, text, want)
			}
			assert.NotContains(t, text, "echo out; ", "the command line may have secrets")
			entry := b.MustRun(t, "journalctl", "--output=json", "CODEX_EVENT=command-ended", "CODEX_SESSION="+s.ID)
			for _, want := range []string{`"SYSLOG_IDENTIFIER":"codex-runner"`, `"CODEX_OUTCOME":"failed"`, `"MESSAGE_ID":"`,
				`"CODEX_UNIT":"` + paths.SessionUnit(s.ID) + `"`} {
				assert.Contains(t, entry, want)
			}
		})
		t.Run("metrics", func(t *testing.T) {
			b.inTextfile("codex_runner_ready 1")
			b.inTextfile(`codex_runner_sessions{state="idle"} 1`)
			assert.Equal(t, "644\n", b.MustRun(t, "stat", "--format=%a", textfileOfRunner), "node exporter is another user")
			_, _, err := b.Run(t.Context(), "runuser", "-u", "bob", "--", "curl", "--silent", "--show-error", "--unix-socket", paths.Socket,
				"http://codex-runner/metrics")
			assert.Error(t, err)
		})
		t.Run("doctor", func(t *testing.T) {
			assert.Empty(t, b.faults("codex-runner", "doctor", "--json"))
			assert.Contains(t, b.faults("runuser", "-u", "bob", "--", "codex-runner", "doctor", "--json"),
				"access: bob is not in the group codex-runner")
			b.MustRun(t, "usermod", "--append", "--groups=codex-runner", "bob")
			assert.Empty(t, b.faults("runuser", "-u", "bob", "--", "codex-runner", "doctor", "--json"))
			b.MustRun(t, "rm", "/run/systemd/inaccessible/reg")
			assert.Contains(t, b.faults("codex-runner", "doctor", "--json"), "systemd: /run/systemd/inaccessible/reg: is not there")
			b.MustRun(t, "systemctl", "daemon-reexec") // codex-runner may have asked it meanwhile, and asks again
			await.True(t, func() bool { return b.faults("codex-runner", "doctor", "--json") == "" }, bed.Bound)
		})
		t.Run("without permission", func(t *testing.T) {
			const rules = "/usr/share/polkit-1/rules.d/codex-runner.rules"
			b.MustRun(t, "mv", rules, "/root")
			b.MustRun(t, "systemctl", "restart", "polkit")
			_, _, err := b.Run(t.Context(), "systemctl", "restart", runnerService)
			assert.Error(t, err, "it is not ready when it may start no session")
			b.MustRun(t, "journalctl", "--sync")
			assert.Contains(t, b.MustRun(t, "journalctl", "-u", runnerService), "is the polkit rule of this package installed?")
			assert.Contains(t, b.faults("codex-runner", "doctor", "--json"), "polkit: codex-runner may not start codex-session@")
			b.MustRun(t, "mv", "/root/codex-runner.rules", rules)
			b.MustRun(t, "systemctl", "restart", "polkit")
			b.MustRun(t, "systemctl", "restart", runnerService)
		})
		t.Run("status", func(t *testing.T) {
			held := b.create(script("exec sleep 4321"))
			await.True(t, func() bool {
				text, err := b.ReadFile(textfileOfRunner)
				return err == nil && strings.Contains(b.MustRun(t, "systemctl", "show", "--property=StatusText", runnerService), "1 of 8 commands run") &&
					len(text) > 0
			}, bed.Bound)
			assert.Regexp(t, `^ready, .*\ncommands: 1 of 8 run, 0 of 1000 wait\n`, b.MustRun(t, "codex-runner", "status"))
			b.send("POST", "/v1/sessions/"+held.ID+"/cancel", struct{}{}, nil)
			b.follow(held.ID, 1)
			b.MustRun(t, "systemctl", "stop", runnerSocket, runnerService)
			assert.Equal(t, "0\n", b.MustRun(t, "stat", "--format=%s", textfileOfRunner), "a stopped service is not one that is dead")
		})
	})
}

const textfileOfRunner = paths.RuntimeDir + "/" + paths.Textfile

// inTextfile waits until the file for node exporter has a line.
func (b *daemonBed) inTextfile(line string) {
	b.t.Helper()
	await.True(b.t, func() bool {
		text, err := b.ReadFile(textfileOfRunner)
		return err == nil && strings.Contains(string(text), "\n"+line+"\n")
	}, bed.Bound, line)
}

// faults are what doctor calls failed, as text. This machine's kernel may lack what only a warning is for.
func (b *daemonBed) faults(command ...string) string {
	b.t.Helper()
	stdout, stderr, _ := b.Run(b.t.Context(), command...)
	var r struct {
		Findings []struct{ Check, Level, Subject, Detail string }
	}
	require.NoError(b.t, json.Unmarshal([]byte(stdout), &r), stdout+stderr)
	var all strings.Builder
	for _, f := range r.Findings {
		if f.Level == "fail" {
			fmt.Fprintf(&all, "%s: %s\n", f.Check, strings.TrimPrefix(f.Subject+": "+f.Detail, ": "))
		}
	}
	return all.String()
}

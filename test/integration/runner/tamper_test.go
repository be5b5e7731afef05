package runner

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	ends "codex-proxy/runner/outcome"
	"codex-proxy/runner/paths"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// TestRunnerTampering has commands do to the main process of their session what one user's processes may do to each other:
// none escapes its time or a cancel, and none forges its end.
func TestRunnerTampering(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		begin := func(text string, limits wire.Limits) string {
			n := script(text)
			n.Limits = limits
			return b.create(n).ID
		}
		cancel := func(id string) {
			b.send(http.MethodPost, "/v1/sessions/"+id+"/cancel", wire.Cancel{Command: 1}, nil)
		}
		stopped := begin("kill -STOP $PPID; exec sleep 4321",
			wire.Limits{Timeout: wire.Duration(time.Second), Grace: wire.Duration(100 * time.Millisecond)})
		deaf := begin("kill -STOP $PPID; exec sleep 4321", wire.Limits{})
		limited := begin("prlimit --pid $PPID --nofile=3:3 2>&1; echo $?; prlimit --nofile=99:99 true && exec sleep 4321", wire.Limits{})
		forged := begin("kill -TERM $PPID; sleep 1; exit 3", wire.Limits{})
		ended := begin("exec sleep 4321", wire.Limits{})
		b.until(ended, 1, wire.CommandRunning)
		b.MustRun(t, "systemctl", "stop", paths.SessionUnit(ended))
		// It runs before it has tried: a cancel that comes at once leaves no output.
		await.True(t, func() bool {
			_, output, err := b.try(http.MethodGet, "/v1/sessions/"+limited+"/commands/1/logs", nil)
			return err == nil && bytes.HasSuffix(output, []byte("\n1\n"))
		}, bed.Bound)
		cancel(limited)
		const isStopped = `grep -q '^State:.T' /proc/$(systemctl show --property=MainPID --value $0)/status`
		await.True(t, func() bool {
			_, _, err := b.Run(t.Context(), "sh", "-c", isStopped, paths.SessionUnit(deaf))
			return err == nil
		}, bed.Bound)
		cancel(deaf)
		for id, want := range map[string]struct {
			word   ends.Word
			by     string
			output string
		}{
			stopped: {ends.TimedOut, "", ""},
			deaf:    {ends.Cancelled, "root", ""},
			limited: {ends.Cancelled, "root", "prlimit: failed to set the NOFILE resource limit: Operation not permitted\n1\n"},
			forged:  {ends.Failed, "", ""},
			ended:   {ends.Cancelled, "systemd", ""},
		} {
			output, c := b.follow(id, 1)
			assert.Equal(t, want.word, c.Outcome.Word, c.Outcome.Text)
			assert.Equal(t, want.by, c.Outcome.CancelledBy)
			assert.Equal(t, want.output, string(output))
		}
	})
}

// TestRunnerSecretsOfTheDaemon has the daemon's user put links to a file of root in the place of a secret. No session gets
// that file; that of the daemon it gets, for reading alone.
func TestRunnerSecretsOfTheDaemon(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newDaemonBed(t, suite)
		b.MustRun(t, "sh", "-c", "install -d /run/root && umask 077 && echo of root >/run/root/TOKEN")
		for name, tc := range map[string]struct{ plant, output, refusal string }{
			"nothing":        {":", "***", ""},
			"link":           {"ln -sf /run/root/TOKEN TOKEN", "", "too many levels of symbolic links"},
			"hard link":      {"ln -f /run/root/TOKEN TOKEN", "", "names: one is right"},
			"file of root":   {"chown root TOKEN", "", "TOKEN belongs to the user 0"},
			"pipe":           {"rm TOKEN; mkfifo -m 0666 TOKEN", "", "TOKEN is no regular file"},
			"directory link": {"cd ..; rm -r $1; ln -s /run/root $1", "", "too many levels of symbolic links"},
		} {
			n := script("cat >kept; cat $CREDENTIALS_DIRECTORY/*; cd $CREDENTIALS_DIRECTORY && ! touch x 2>&-")
			n.Secrets, n.Commands[0].Stdin = map[string]string{"TOKEN": "very secret"}, true
			id := b.create(n).ID
			b.MustRun(t, "sh", "-ec", "cd "+paths.Secrets+"/$1; "+tc.plant, "sh", id)
			b.send(http.MethodPut, "/v1/sessions/"+id+"/commands/1/stdin", "input\n", nil)
			output, c := b.follow(id, 1)
			assert.Equal(t, tc.output, string(output), name)
			assert.Equal(t, tc.refusal == "", c.Outcome.Word == ends.Succeeded, "%s: %s", name, c.Outcome.Text)
			assert.Contains(t, c.Outcome.Text, tc.refusal, name)
		}
	})
}

// TestRunnerCredentialLinks has the user of the daemon name files of root as secrets and credentials: neither systemd nor
// root's step before the start reads them.
func TestRunnerCredentialLinks(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := newRunnerBed(t, suite)
		b.MustRun(t, "sh", "-c", "mkdir -m 0700 /run/of-root; echo of root >/run/of-root/TOKEN; chmod 0600 /run/of-root/TOKEN")
		attacks := []struct{ name, plant, want string }{
			{"symlink", "ln -s /etc/shadow $0/TOKEN", "too many levels of symbolic links"},
			{"directory", "rmdir $0; ln -s /run/of-root $0", "too many levels of symbolic links"},
			{"pipe", "mkfifo $0/TOKEN", "TOKEN is no regular file"},
			// Root links it, as a kernel without protected_hardlinks (proc_sys_fs(5)) lets every user do.
			{"hard", "ln /run/of-root/TOKEN $0/TOKEN", "names: one is right"},
		}
		plant := func(name, command, dir string) {
			args := []string{"sh", "-ec", command, dir}
			if name != "hard" {
				args = append([]string{"runuser", "-u", "codex-runner", "--"}, args...)
			}
			b.MustRun(t, args...)
		}
		for n, a := range attacks {
			s := b.session(a.name, n+1)
			plant(a.name, a.plant, paths.Secrets+"/"+s.id)
			e := s.run(shell("wc -c $CREDENTIALS_DIRECTORY/*"))
			assert.Nil(t, e.result, "%s: %s", a.name, e.output)
			assert.Contains(t, e.ended.Refusal, "cannot give its secrets to the session: ", a.name)
			assert.Contains(t, e.ended.Refusal, a.want, a.name)

			key := paths.Key(a.name)
			dir := paths.RepositoryCredentials + "/" + key
			b.MustRun(t, "runuser", "-u", "codex-runner", "--", "mkdir", "--mode=0700", dir)
			plant(a.name, a.plant, dir)
			_, err := b.Systemctl(t.Context(), "start", paths.RepositoryUnit(key))
			require.Error(t, err)
			entries := b.MustRun(t, "journalctl", "--output=cat", "--unit="+paths.RepositoryUnit(key))
			assert.Contains(t, entries, "cannot give its credentials to the repository: ", a.name)
			assert.Contains(t, entries, a.want, a.name)
		}
		assert.Empty(t, b.MustRun(t, "find", paths.Sessions, paths.Repositories, "-mindepth", "1"))
	})
}

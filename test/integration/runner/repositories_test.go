package runner

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
)

// teamToken opens the repositories of teamServer.
const teamToken = "token-of-the-team"

// teamServer serves the repositories below /srv/http to users of the token (gitprotocol-http(5), the dumb protocol).
const teamServer = `
import base64, http.server, os
os.chdir("/srv/http")
want = "Basic " + base64.b64encode(b"bot:` + teamToken + `").decode()
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") == want:
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=team")
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 8480), Handler).serve_forever()
`

const teamURL = "http://127.0.0.1:8480/app"

// repositoriesBed is a machine with the daemon, a server that wants a credential, which alice has, and a repository of
// alice that has a submodule there.
type repositoriesBed struct{ *daemonBed }

func newRepositoriesBed(t *testing.T, suite string) repositoriesBed {
	t.Helper()
	b := repositoriesBed{newDaemonBed(t, suite, "git", "python3")}
	b.MustRun(t, "sh", "-ec", `useradd -m -G codex-runner alice; useradd -m -G codex-runner bob; chmod 0700 /home/alice
export HOME=/root; git config --global user.name test; git config --global user.email test@example.org; mkdir -p /srv/http; cd /srv
git init -q -b main sub; echo sub >sub/b; git -C sub add .; git -C sub commit -qm sub
git init -q -b main app; cd app; echo one >a
printf '[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n' >.gitmodules
git -c protocol.file.allow=always clone -q ../sub sub; git add . 2>/dev/null; git commit -qm first; git tag v1
echo two >a; git commit -qam second; cd ..
for r in app sub; do git clone -q --bare $r http/$r; git -C http/$r update-server-info; done; chmod -R a+rX /srv
cp -r app /home/alice/app; git -C /home/alice/app remote add origin `+teamURL+`; chown -R alice:alice /home/alice
echo http://bot:`+teamToken+`@127.0.0.1:8480 >/etc/codex-runner/git-credentials
chown root:codex-runner /etc/codex-runner/git-credentials; chmod 0640 /etc/codex-runner/git-credentials`)
	require.NoError(t, b.WriteFile("/srv/server.py", []byte(teamServer), 0o600))
	b.MustRun(t, "systemd-run", "--unit=team", "--property=Type=exec", "python3", "/srv/server.py")
	b.MustRun(t, "sh", "-c", "until curl -so /dev/null http://127.0.0.1:8480/; do sleep 0.02; done")
	b.settings("")
	return b
}

// settings replaces those of the daemon, with the credential of alice.
func (b repositoriesBed) settings(more string) {
	b.t.Helper()
	text := more + "[[credentials]]\nurl = \"http://127.0.0.1:8480/\"\ngit_credentials = \"/etc/codex-runner/git-credentials\"\nusers = [\"alice\"]\n"
	require.NoError(b.t, b.WriteFile("/etc/codex-runner/runner.toml", []byte(text), 0o644))
	b.MustRun(b.t, "systemctl", "restart", runnerService)
}

// as runs codex-runner as a user in his home.
func (b repositoriesBed) as(user string, args ...string) (stdout, stderr string, status int) {
	b.t.Helper()
	stdout, stderr, err := b.Run(b.t.Context(), append([]string{"runuser", "-u", user, "--", "env", "-C", "/home/" + user, "HOME=/home/" + user,
		"codex-runner"}, args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout, stderr, exit.ExitCode()
	}
	require.NoError(b.t, err, stderr)
	return stdout, stderr, 0
}

// succeeds is as for a command of alice that succeeds.
func (b repositoriesBed) succeeds(args ...string) string {
	b.t.Helper()
	stdout, stderr, status := b.as("alice", args...)
	require.Zero(b.t, status, stdout+stderr)
	return stdout
}

// refused runs a command of a user that does not start, with status 125, or 64 for a mistake of the command line, and
// leaves no session.
func (b repositoriesBed) refused(user, want string, args ...string) {
	b.t.Helper()
	before := b.sessions()
	stdout, stderr, status := b.as(user, append([]string{"run"}, args...)...)
	assert.Contains(b.t, []int{64, 125}, status, stdout+stderr)
	assert.Contains(b.t, stderr, want)
	assert.Empty(b.t, stdout)
	assert.Equal(b.t, before, b.sessions(), "nothing is started")
}

func (b repositoriesBed) sessions() int {
	b.t.Helper()
	var all wire.Sessions
	b.send(http.MethodGet, "/v1/sessions?all=true", nil, &all)
	return len(all.Sessions)
}

// TestRunnerRepositories runs commands on checkouts, from the command line to the session.
func TestRunnerRepositories(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newRepositoriesBed(t, suite)
		const look = "cat a sub/b; git log --format=%s; git status --porcelain; ls -A"
		clean := "one\nsub\nfirst\n.git\n.gitmodules\na\nsub\n"
		local := []string{"run", "--repo=app", "--ref=v1"}
		assert.Equal(t, clean, b.succeeds(append(local, "--", "sh", "-c", look)...))
		assert.Contains(t, b.succeeds(append(local, "--dry-run", "--", "true")...), "/home/alice/app")
		b.patches(local)

		// Another session gets the same workspace, of which nothing is left.
		b.succeeds(append(local, "--", "sh", "-c", `cp -p a time; echo six >a; touch -r time a; rm -r time sub; ln -s /etc sub
git config core.fsmonitor 'touch /workspace/ran; :'; git update-index --assume-unchanged a; echo new >untracked; mkdir -m 0 locked`)...)
		assert.Equal(t, clean, b.succeeds(append(local, "--", "sh", "-c", look)...))

		b.projects()
		b.changes()
		b.urls(look)

		// What is damaged is made anew: a checkout at once, a mirror for the next session.
		b.MustRun(t, "sh", "-c", "rm -rf "+paths.Workspaces+"/*/tree/.git; echo x >"+paths.Workspaces+"/1/record")
		assert.Equal(t, clean, b.succeeds(append(local, "--", "sh", "-c", look)...))
		uid := strings.TrimSpace(b.MustRun(t, "id", "-u", "alice"))
		mirror := paths.RepositoryStates + "/" + paths.Key(uid+" /home/alice/app")
		b.MustRun(t, "sh", "-c", "rm -r "+mirror+"/"+paths.Mirror+"/objects/*")
		_, stderr, status := b.as("alice", append(local, "--", "true")...)
		assert.Equal(t, 125, status)
		assert.Contains(t, stderr, "The workspace could not be made ready")
		assert.Equal(t, clean, b.succeeds(append(local, "--", "sh", "-c", look)...))

		// Beyond the bounds, the mirror and the workspaces that were used least recently go.
		b.settings("workspace_bytes = \"0\"\n[repositories]\nmax_count = 1\n")
		b.MustRun(t, "timeout", fmt.Sprint(bed.Bound.Seconds()), "sh", "-c", "codex-runner status >/dev/null; until test $(ls "+paths.RepositoryStates+" | wc -l) = 1; do sleep 0.02; done")
		b.MustRun(t, "test", "-d", mirror)
	})
}

// patches applies patches, or not.
func (b repositoriesBed) patches(local []string) {
	t := b.t
	t.Helper()
	with := func(patch string, args ...string) []string {
		require.NoError(t, b.WriteFile("/home/alice/patch", []byte(patch), 0o644))
		return append([]string{"--repo=app", "--ref=v1", "--patch=patch"}, append(args, "--", "sh", "-c", "cat a; echo mine >mine")...)
	}
	const fix = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"
	assert.Equal(t, "two\n", b.succeeds(append([]string{"run", "--keep"}, with(fix)...)...))
	var all wire.Sessions
	b.send(http.MethodGet, "/v1/sessions?all=true&limit=1", nil, &all)
	id := all.Sessions[0].ID
	assert.Len(t, all.Sessions[0].Patch, 64)
	assert.Equal(t, "two\nmine\n", b.succeeds("run", "--session="+id, "--", "cat", "a", "mine"), "the workspace stays as it was left")
	b.refused("bob", "there is no such session", "--session="+id, "--", "true")

	_, stderr, status := b.as("alice", append([]string{"run"}, with("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n")...)...)
	assert.Equal(t, 125, status)
	assert.Contains(t, stderr, `hunk "@@ -1 +1 @@"`)
	stdout, stderr, status := b.as("alice", append([]string{"run"}, with(fix, "--ref=main")...)...)
	assert.Equal(t, []any{"two\n", 0}, []any{stdout, status})
	assert.Contains(t, stderr, "the commit has the change of the patch already")
	b.refused("alice", `line 1 of the patch, file "../a"`, with(strings.ReplaceAll(fix, "/a\n", "/../a\n"))...)
	b.refused("alice", "/etc/passwd", with("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n")...)
}

// projects runs in checkouts as people and CI systems have them: with tags, below the top, without the history, and
// without the submodules, of which the service cannot reach one.
func (b repositoriesBed) projects() {
	b.t.Helper()
	b.MustRun(b.t, "runuser", "-u", "alice", "--", "sh", "-ec", `cd; export HOME=/home/alice
git config --global user.name alice; git config --global user.email alice@example.org
git init -q -b main lib; cd lib; mkdir -p part; echo one >part/file; git add .; git commit -qm one; git tag -a -m v1 v1
echo two >part/file; printf '[submodule "far"]\n\tpath = far\n\turl = git@192.0.2.1:far\n' >.gitmodules; git add .gitmodules
git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),far; git commit -qam two; cd ..; git clone -q --depth=1 file:///home/alice/lib shallow`)
	describe := func(repo string) string {
		return b.succeeds("run", "--repo="+repo, "--", "sh", "-c", "git describe --tags --always --abbrev=4 | cut -d- -f1,2; git rev-list --count HEAD; pwd")
	}
	assert.Equal(b.t, "v1-1\n2\n/workspace\n", describe("lib"))
	b.MustRun(b.t, "runuser", "-u", "alice", "--", "git", "-C", "/home/alice/lib", "tag", "v2")
	assert.Equal(b.t, "v2\n2\n/workspace/part\n", describe("lib/part"), "a new tag of a commit that the service has")
	assert.Equal(b.t, "1\n/workspace\n", strings.SplitAfterN(describe("shallow"), "\n", 2)[1])
}

// urls fetches with a credential, which nobody else has.
func (b repositoriesBed) urls(look string) {
	t := b.t
	t.Helper()
	seen := b.succeeds("run", "--repo="+teamURL, "--ref=main", "--", "sh", "-c", look+`
env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; cat .git/config
grep -rs `+teamToken[:8]+` /run /etc/codex-runner /var/lib /repository $CREDENTIALS_DIRECTORY; true`)
	assert.True(t, strings.HasPrefix(seen, "two\nsub\nsecond\nfirst\n"), seen)
	secret := strings.ReplaceAll(seen, "grep -rs "+teamToken[:8], "")
	assert.NotContains(t, secret, teamToken)
	journal, err := b.Journal(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, journal, teamToken)
	_, _, err = b.Run(t.Context(), "grep", "-rs", teamToken, paths.RuntimeDir, paths.StateDir, paths.RepositoryStates)
	require.Error(t, err, "the credential goes with the fetch")

	b.refused("bob", "could not read Username", "--repo="+teamURL, "--ref=main", "--", "true")
	b.refused("alice", "do you mean main?", "--repo="+teamURL, "--ref=mian", "--", "true")
	b.refused("alice", "not found", "--repo="+teamURL+"/none", "--", "true")
	b.refused("alice", "the service fetches no file URL", "--repo=file:///srv/app", "--", "true")
	b.refused("alice", "neither a URL nor a directory", "--repo=nowhere", "--", "true")
	b.refused("alice", "no branch, tag or commit", "--repo=app", "--ref=nowhere", "--", "true")
}

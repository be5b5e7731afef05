package runner

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/runner/exec"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// jobsBed is a machine with two repositories, of which one is a submodule of the other, and a store of wheels.
type jobsBed struct {
	*runnerBed
}

const (
	originURL = "git://127.0.0.1/origin"
	wheels    = "/srv/wheels"
)

func newJobsBed(t *testing.T, suite string) jobsBed {
	t.Helper()
	b := jobsBed{newRunnerBed(t, suite, "git", "python3")}
	b.MustRun(t, "sh", "-ec", `export HOME=/root; cd /srv
git config --global user.name test; git config --global user.email test@example.org
git init -q -b main sub; echo sub >sub/b; git -C sub add .; git -C sub commit -qm sub
git init -q -b main origin; cd origin; echo one >a; echo demo >environment.yml
printf '[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n' >.gitmodules
git -c protocol.file.allow=always clone -q ../sub sub; git add .; git commit -qm first 2>/dev/null`)
	b.MustRun(t, "systemd-run", "--unit=origin", "--property=Type=exec", "--setenv=HOME=/root", "git", "daemon", "--reuseaddr",
		"--export-all", "--base-path=/srv", "--listen=127.0.0.1")
	b.MustRun(t, "sh", "-c", "until git ls-remote "+originURL+" >/dev/null 2>&1; do sleep 0.02; done")
	b.micromamba()
	return b
}

// wheelOf is a version of a wheel that pip installs without a network. Its module knows the version.
func wheelOf(t *testing.T, version string) []byte {
	t.Helper()
	var wheel bytes.Buffer
	files := zip.NewWriter(&wheel)
	info := "demo-" + version + ".dist-info/"
	for name, text := range map[string]string{
		"demo.py":         "x = '" + version + "'\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: " + version + "\n",
		info + "RECORD":   "demo.py,,\n" + info + "WHEEL,,\n" + info + "METADATA,,\n" + info + "RECORD,,\n",
	} {
		file, err := files.Create(name)
		require.NoError(t, err)
		_, err = file.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	return wheel.Bytes()
}

// micromamba installs what plays it, and a store without packages, which it does not need.
func (b jobsBed) micromamba() {
	b.t.Helper()
	require.NoError(b.t, b.WriteFile("/usr/local/bin/micromamba", []byte(`#!/bin/sh
test "$1" != --version || { echo 1; exit; }
while test "$1" != --prefix; do shift; done
mkdir -p "$2/bin"; printf '#!/bin/sh\necho 1.0\n' >"$2/bin/demo"; chmod 755 "$2/bin/demo"
`), 0o755))
	require.NoError(b.t, b.WriteFile(wheels+"/SHA256SUMS", nil, 0o644))
	b.MustRun(b.t, "chmod", "-R", "a+rX", "/srv")
}

// order writes the order of a job, runs its unit, and returns its result.
func order[T job.Fetched | job.Built](b jobsBed, dir, unit string, order any) *T {
	b.t.Helper()
	text, err := json.Marshal(order)
	require.NoError(b.t, err)
	dir = filepath.Join(paths.StateDir, dir)
	require.NoError(b.t, b.WriteFile(dir+"/"+paths.Order, text, 0o600))
	b.MustRun(b.t, "chown", "-R", "codex-runner:codex-runner", dir)
	b.MustRun(b.t, "systemctl", "start", unit)
	text, err = b.ReadFile(dir + "/" + paths.Result)
	require.NoError(b.t, err)
	result, err := job.Read[T](bytes.NewReader(text))
	require.NoError(b.t, err)
	return result
}

// fetch fetches the origin.
func (b jobsBed) fetch(ref string) *job.Fetched {
	b.t.Helper()
	key := paths.Key(originURL)
	b.MustRun(b.t, "mkdir", "-p", paths.RepositoryCredentials+"/"+key)
	return order[job.Fetched](b, paths.RepositoryDir(key), paths.RepositoryUnit(key), job.Fetch{
		Version: job.Version, URL: originURL, Ref: ref, Time: bed.Bound, Bytes: 1 << 30,
	})
}

// at is a specification whose workspace is the commit.
func at(commit, script string) session.Spec {
	spec := shell(script)
	spec.Repository = paths.Key(originURL)
	spec.Workspace = &session.Workspace{URL: originURL, Commit: commit}
	return spec
}

// follower is a connection that follows a session.
type follower struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Reader
}

func (s *runnerSession) dial() *follower {
	s.t.Helper()
	socket := filepath.Join(paths.RuntimeDir, paths.ControlDir(s.id), paths.ControlSocket)
	conn, err := s.DialUnix(s.t.Context(), socket)
	// The file is there before the process that has made it listens.
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); errors.Is(err, unix.ECONNREFUSED) && time.Now().Before(deadline); pace.Pause(s.t.Context()) {
		conn, err = s.DialUnix(s.t.Context(), socket)
	}
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(2*bed.Bound)))
	return &follower{s.t, conn, bufio.NewReader(conn)}
}

func (f *follower) send(request exec.Request) {
	f.t.Helper()
	request.Version = session.Version
	require.NoError(f.t, json.NewEncoder(f.conn).Encode(request))
}

func (f *follower) reply() exec.Reply {
	f.t.Helper()
	line, err := f.lines.ReadBytes('\n')
	require.NoError(f.t, err)
	var reply exec.Reply
	require.NoError(f.t, json.Unmarshal(line, &reply))
	require.Empty(f.t, reply.Error)
	return reply
}

// until returns the first reply of the phase.
func (f *follower) until(phase exec.Phase) exec.Reply {
	f.t.Helper()
	for {
		reply := f.reply()
		if reply.Phase == phase {
			return reply
		}
		require.NotEqual(f.t, exec.Ended, reply.Phase)
	}
}

// begin starts the next command, and follows it.
func (s *runnerSession) begin(spec session.Spec) *follower {
	s.t.Helper()
	s.next(spec)
	// The socket is there when the unit has its main process.
	s.MustRun(s.t, "systemctl", "start", "--no-block", s.unit())
	socket := filepath.Join(paths.RuntimeDir, paths.ControlDir(s.id), paths.ControlSocket)
	s.MustRun(s.t, "sh", "-c", "until test -S "+socket+"; do sleep 0.02; done")
	f := s.dial()
	f.send(exec.Request{Do: exec.Follow})
	return f
}

// finish waits for the end of the unit.
func (s *runnerSession) finish() ending {
	s.t.Helper()
	await.True(s.t, func() bool {
		shown, err := s.Show(s.t.Context(), s.unit(), "ActiveState")
		require.NoError(s.t, err)
		return shown["ActiveState"] == "inactive"
	}, bed.Bound, s.unit()+" stays")
	return s.ending()
}

// TestRunnerRepository fetches a repository with its submodule; a workspace that a session has attacked is made anew for
// the next one; patches are applied and refused.
func TestRunnerRepository(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newJobsBed(t, suite)
		fetched := b.fetch("no-such-branch")
		require.NotNil(t, fetched.Failure)
		assert.Equal(t, job.UnknownRef, fetched.Failure.Code, fetched.Failure.Text)
		fetched = b.fetch("main")
		require.Nil(t, fetched.Failure)
		require.Len(t, fetched.Commit, 40)
		const look = "cat a sub/b; git log --format=%s; git status --porcelain; ls -A; ls .git/hooks 2>/dev/null; git fsck 2>&1 | grep -v dangling"
		first := b.session("first", 3)
		e := first.run(at(fetched.Commit, look))
		require.NotNil(t, e.result)
		require.Nil(t, e.result.Failure)
		clean := e.output
		assert.Equal(t, strings.Fields("one sub first .git .gitmodules a environment.yml sub"), strings.Fields(clean))
		inodes := func() []string {
			return strings.Fields(b.MustRun(t, "sh", "-c", "cd "+paths.Workspaces+"/3 && stat --format=%i tree tree/a tree/sub tree/sub/b"))
		}
		ofFirst := inodes()

		spec := shell(`cp -p a time; echo two >a; touch -r time a; rm time; git config core.fsmonitor 'touch /workspace/ran; :'
mkdir -p .git/hooks; printf '#!/bin/sh\ntouch /workspace/ran' >.git/hooks/post-checkout; chmod +x .git/hooks/post-checkout
git update-index --assume-unchanged a; echo '* filter=evil' >.git/info/attributes; git config filter.evil.smudge 'touch ran; cat'
rm -r sub; ln -s /etc sub; echo new >untracked; mkdir -m 0 locked; cat a
python3 -c 'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(25000)]'; touch /repository/mirror.git/x 2>&1; ls /var/lib/private/codex-repository`)
		spec.Repository = paths.Key(originURL)
		e = first.run(spec)
		require.NotNil(t, e.result)
		assert.Contains(t, e.output, "two\n", "the next command has the same workspace")
		assert.Contains(t, e.output, "Read-only file system")

		second := b.session("second", 3)
		e = second.run(at(fetched.Commit, look))
		require.NotNil(t, e.result)
		assert.Equal(t, clean, e.output)
		for _, inode := range inodes() {
			assert.NotContains(t, ofFirst, inode, "a process that has a file of the first open has none of the second")
		}
		assert.ElementsMatch(t, strings.Fields(b.MustRun(t, "ls", paths.Workspaces+"/3")),
			[]string{paths.Record, paths.SlotRepository, paths.Tenant, paths.Tree}, "the tree of the first is gone, deep as it is")

		third := b.session("third", 3)
		third.patch("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n")
		e = third.run(at(fetched.Commit, "echo ran"))
		require.NotNil(t, e.result)
		require.NotNil(t, e.result.Failure)
		assert.Equal(t, session.PatchTask, e.result.Failure.Stage)
		assert.Contains(t, e.result.Failure.Text, "/etc/passwd")
		assert.Empty(t, e.output)
		third.patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n")
		e = third.run(at(fetched.Commit, "echo ran"))
		assert.Contains(t, e.result.Failure.Text, `hunk "@@ -1 +1 @@"`)
		third.patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+patched\n")
		e = third.run(at(fetched.Commit, "cat a"))
		assert.Equal(t, "patched\n", e.output)

		e = third.run(at(strings.Repeat("0", 40), "echo ran"))
		require.NotNil(t, e.result.Failure)
		assert.Equal(t, session.WorkspaceTask, e.result.Failure.Stage)
		assert.Contains(t, e.result.Failure.Text, "fetch the repository again")

		online := b.session("online", 4)
		online.online = true
		const ask = "git ls-remote " + originURL + " main >/dev/null 2>&1 && echo network"
		assert.Equal(t, "network\n", online.run(shell(ask)).output)
		assert.Empty(t, b.session("offline", 5).run(shell(ask)).output)

		third.next(at(fetched.Commit, "exec sleep 4321"))
		b.MustRun(t, "systemctl", "start", third.unit())
		for _, sweep := range []string{paths.SweepUnit("session", third.id), paths.SweepUnit("slot", "3")} {
			_, _, err := b.Run(t.Context(), "systemctl", "start", sweep)
			require.Error(t, err, "%s has something of a session that runs", sweep)
		}
		b.MustRun(t, "systemctl", "stop", third.unit())
		for _, s := range []*runnerSession{first, second, third} {
			b.MustRun(t, "systemctl", "start", paths.SweepUnit("session", s.id))
		}
		b.MustRun(t, "systemctl", "start", paths.SweepUnit("slot", "3"))
		b.MustRun(t, "systemctl", "start", paths.SweepUnit("repository", paths.Key(originURL)))
		left := b.MustRun(t, "sh", "-c", "cd /var/lib; ls codex-session private/codex-session codex-workspace private/codex-repository codex-repository")
		assert.NotContains(t, left, third.id)
		assert.NotContains(t, left, "3\n")
		assert.NotContains(t, left, paths.Key(originURL))
		assert.Contains(t, left, online.id)
		for unit, most := range map[string]string{
			paths.RepositoryUnit(paths.Key(originURL)): "18", paths.SweepUnit("slot", "3"): "18", online.unit(): "18",
			paths.EnvironmentUnit(strings.Repeat("0", 64)): "18",
		} {
			score := b.MustRun(t, "systemd-analyze", "security", "--no-pager", "--threshold="+most, unit)
			t.Logf("%s: %s: %s", suite, unit, score[strings.LastIndex(score, "Overall"):])
		}
	})
}

// TestRunnerEnvironment builds an environment once, for two sessions.
func TestRunnerEnvironment(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newJobsBed(t, suite)
		commit := b.fetch("main").Commit
		spec := at(commit, "exec 2>&1; demo; echo $CONDA_PREFIX; touch $CONDA_PREFIX/x; ls /environments")
		spec.Environment = &session.Environment{Owner: "1000", Name: "conda", Store: wheels, Wait: 2 * bed.Bound}
		first := b.session("first", 1)
		f := first.begin(spec)
		need := f.until(exec.Awaiting).Need
		require.NotNil(t, need)
		require.Equal(t, need.Key, need.Order.Key())
		assert.Equal(t, "conda", need.Order.Provider)

		other := strings.Repeat("0", 64)
		b.MustRun(t, "sh", "-c", "mkdir -p "+paths.StateDir+"/"+paths.EnvironmentDir(other)+` && printf '{"order":{"owner":"1000"}}' >`+
			paths.StateDir+"/"+paths.EnvironmentDir(other)+"/"+paths.Order)
		_, _, err := b.Run(t.Context(), "systemctl", "start", paths.EnvironmentUnit(other))
		require.Error(t, err, "the order is that of another environment")
		built := order[job.Built](b, paths.EnvironmentDir(need.Key), paths.EnvironmentUnit(need.Key),
			job.Build{Version: job.Version, Order: need.Order, Bytes: 1 << 30})
		require.Nil(t, built.Failure)

		provide := exec.Request{Do: exec.Provide, Key: need.Key}
		first.control(provide)
		f.until(exec.Ended)
		prefix := paths.Environments + "/" + need.Key + "/conda"
		output := func(e ending) []string {
			t.Helper()
			require.NotNil(t, e.result)
			require.Nil(t, e.result.Failure)
			return strings.Split(strings.TrimSpace(e.output), "\n")
		}
		lines := output(first.finish())
		require.Len(t, lines, 4)
		assert.Equal(t, []string{"1.0", prefix}, lines[:2])
		assert.Contains(t, lines[2], "Read-only file system")
		assert.Contains(t, lines[3], "Permission denied")

		// The manifests may have a password, and neither a session nor another user reads what is left of the build.
		_, _, err = b.Run(t.Context(), "test", "-e", paths.EnvironmentStates+"/1000/"+need.Key+"/manifests/environment.yml")
		require.Error(t, err)
		stranger := b.session("stranger", 3)
		foreign := spec
		foreign.Environment = &session.Environment{Owner: "1001", Name: "conda", Store: wheels, Wait: 2 * bed.Bound}
		foreign.Args = []string{"sh", "-c", "ls -A " + prefix}
		g := stranger.begin(foreign)
		strange := g.until(exec.Awaiting).Need
		assert.NotEqual(t, need.Key, strange.Key, "each user has environments of their own")
		stranger.control(exec.Request{Do: exec.Provide, Key: strange.Key, Fault: "none"})
		g.until(exec.Ended)
		stranger.finish()

		second := b.session("second", 2)
		f = second.begin(spec)
		again := f.until(exec.Awaiting).Need
		assert.Equal(t, need.Key, again.Key)
		began := time.Now()
		second.control(provide)
		f.until(exec.Running)
		t.Logf("%s: the command ran %v after the environment was provided", suite, time.Since(began))
		f.until(exec.Ended)
		assert.Equal(t, lines, output(second.finish()))

		f = second.begin(spec)
		f.until(exec.Awaiting)
		second.control(exec.Request{Do: exec.Provide, Key: need.Key, Fault: "micromamba is broken"})
		f.until(exec.Ended)
		e := second.finish()
		require.NotNil(t, e.result)
		assert.Equal(t, &session.Failure{Stage: session.EnvTask, Text: "micromamba is broken"}, e.result.Failure)

		b.MustRun(t, "systemctl", "start", paths.SweepUnit("environment", need.Key))
		_, _, err = b.Run(t.Context(), "test", "-e", paths.EnvironmentStates+"/1000/"+need.Key)
		assert.Error(t, err)
	})
}

// control sends a request of its own connection.
func (s *runnerSession) control(request exec.Request) exec.Reply {
	s.t.Helper()
	f := s.dial()
	f.send(request)
	return f.reply()
}

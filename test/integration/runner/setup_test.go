package runner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// setupProject makes a repository of alice with two packages of Python, one with a lock and one with requirements.
const setupProject = `useradd -m -G codex-runner alice; mkdir -p /home/alice/app/tools; cd /home/alice/app; export HOME=/root
git config --global user.name test; git config --global user.email test@example.org; git init -q -b main /home/alice/plain; git -C /home/alice/plain commit -q --allow-empty -m plain; git init -q -b main
printf '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["demo==2.0"]\n' >pyproject.toml
UV_PYTHON_DOWNLOADS=never uv lock --quiet --offline --no-index --find-links ` + wheels + ` --python /usr/bin/python3
echo 'echo made $A; echo made >>$HOME/count; mkdir -p bin; printf "#!/bin/sh\necho tool\n" >bin/tool; chmod +x bin/tool' >make.sh
printf '/.venv\n/bin\n' >.gitignore; git add .; git commit -qm first
cp -r . /home/alice/own; cd /home/alice/own
printf 'run = "sh make.sh"\ninputs = ["make.sh"]\npath = ["bin"]\nenv = { A = "a" }\n' >.codex-runner.toml; git add .; git commit -qm own
git clone -q . /home/alice/eight; cd /home/alice/eight; echo 'sleep 1; head -c 30000000 /dev/zero >bin/large' >>make.sh; git commit -qam eight
cd /home/alice/own; cp -r . /home/alice/slow; cd /home/alice/slow; echo 'touch $HOME/begun; sleep 1000' >>make.sh; git commit -qam slow
for bad in hanging filling outside; do cp -r /home/alice/own /home/alice/$bad; done
echo 'echo waiting; sleep 1000' >/home/alice/hanging/make.sh; echo 'echo filling; yes >$HOME/large' >/home/alice/filling/make.sh
echo 'for d in / $(find / -maxdepth 3 -type d -not -path "/proc/*" -not -path "/workspace*" -not -path "/environments*" 2>/dev/null); do test $d = $HOME || touch $d/outside-mark 2>/dev/null; done; true' >/home/alice/outside/make.sh
for bad in hanging filling outside; do git -C /home/alice/$bad commit -qam bad; done
cd /home/alice/own; cp -r . /home/alice/broken; cd /home/alice/broken; echo 'echo reason; exit 3' >make.sh; git commit -qam broken; chown -R alice:alice /home/alice`

// ownFileSystem puts /var/lib on a file system that can have the changes of an overlay: that of the machine is one.
const ownFileSystem = `systemctl stop codex-runner.socket codex-runner.service
mount -t tmpfs tmpfs /mnt; cp -a /var/lib/. /mnt; mount --bind /mnt /var/lib; systemctl start codex-runner.socket`

// alice runs a line of a shell as alice, in her home.
func (b environmentsBed) alice(args ...string) (status, stdout, stderr string) {
	b.t.Helper()
	script := `cd; ` + strings.Join(args, " ") + ` >/tmp/out 2>/tmp/err; echo $?`
	status = b.MustRun(b.t, "runuser", "-u", "alice", "--", "env", "HOME=/home/alice", "sh", "-c", script)
	return strings.TrimSpace(status), b.MustRun(b.t, "cat", "/tmp/out"), b.MustRun(b.t, "cat", "/tmp/err")
}

// TestRunnerSetup has sessions make their repositories ready, without the network: by the manifests, and by a script of
// the repository. The second command finds all that the first one had.
func TestRunnerSetup(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newEnvironmentsBed(t, suite)
		b.MustRun(t, "sh", "-ec", setupProject+"\n"+ownFileSystem)
		b.pythonSetup(t)
		b.ownSetup(t)
		b.sharedSetup(t)
		b.killedSetup(t)
		b.damagedSnapshot(t)
		b.failedSetup(t)
		b.badSetups(t)
		assert.Equal(t, "", b.MustRun(t, "sh", "-c", `journalctl --no-pager _PID=1 | grep -E 'var-lib-codex.*[.]mount: ' || true`))
	})
}

// pythonSetup has uv install the packages of a lock into the workspace, where the command can change them.
func (b environmentsBed) pythonSetup(t *testing.T) {
	const use = `-- sh -c "python -c 'import demo; print(demo.x)'; touch .venv/mine; git status --porcelain"`
	_, stdout, _ := b.alice("codex-runner setup --print --repo app/tools")
	assert.Contains(t, stdout, `# uv, by "uv.lock"`)
	status, stdout, stderr := b.alice(`codex-runner run --keep --repo app`, use)
	require.Equal(t, []string{"0", "2.0\n", ""}, []string{status, stdout, stderr}, "a build has run the set-up")
	_, id, _ := b.alice(`codex-runner sessions --json --limit 1 | sed 's/.*"id":"\([a-z2-7]*\)".*/\1/'`)
	status, stdout, stderr = b.alice(`codex-runner run --session`, strings.TrimSpace(id), use)
	assert.Equal(t, []string{"0", "2.0\n", ""}, []string{status, stdout, stderr}, "the set-up has run")
	// Another session has what the set-up has left, and nothing of the first session.
	status, stdout, stderr = b.alice(`codex-runner run --repo app -- sh -c 'grep -c " \(/workspace\|/run/codex-home\) .* - overlay codex-session " /proc/self/mountinfo; ls .venv'`)
	require.Equal(t, []string{"0", ""}, []string{status, stderr})
	assert.Contains(t, stdout, "2\n", "the workspace and HOME are mounted")
	assert.NotContains(t, stdout, "mine", stderr)
}

// ownSetup runs the script of the repository, again after a change of what it names.
func (b environmentsBed) ownSetup(t *testing.T) {
	status, stdout, stderr := b.alice(`codex-runner run --keep --repo own -- sh -c 'tool $A; cat $HOME/count'`)
	assert.Equal(t, []string{"0", "tool\nmade\n"}, []string{status, stdout}, stderr)
	_, id, _ := b.alice(`codex-runner sessions --json --limit 1 | sed 's/.*"id":"\([a-z2-7]*\)".*/\1/'`)
	again := `codex-runner run --session ` + strings.TrimSpace(id) + ` -- sh -c `
	_, stdout, _ = b.alice(again + `'tool; echo "echo more" >>make.sh'`)
	assert.Equal(t, "tool\n", stdout)
	_, stdout, _ = b.alice(again + `tool`)
	assert.Equal(t, "made a\nmore\ntool\n", stdout)
	// The build of a change begins with the snapshot, and a set-up that is given has one of its own.
	_, stdout, stderr = b.alice(`{ echo 'echo more' >>own/make.sh; echo "run = 'echo given >given'" >given.toml; codex-runner run --repo own --dirty -- cat /run/codex-home/count;`,
		`codex-runner run --repo own --setup given.toml -- sh -c 'cat given; ls bin'; }`)
	assert.Equal(t, "made\nmade\ngiven\n", stdout)
	assert.Contains(t, stderr, "ls: cannot access 'bin'")
}

// built counts the builds of environments until now.
func (b environmentsBed) built() string {
	b.t.Helper()
	return strings.TrimSpace(b.MustRun(b.t, "sh", "-c", `journalctl -o cat -u codex-runner | grep -c "an environment was built"`))
}

// sharedSetup has eight sessions at a time share one build. What one of them does, the next one does not see, and what
// they begin with is not theirs: it does not count for their disk, and no other user has it.
func (b environmentsBed) sharedSetup(t *testing.T) {
	before := b.built()
	const attack = `cat $HOME/count; tool; for f in tool large mine; do echo mine >$HOME/$f; echo mine >bin/$f; done; rm -r bin make.sh $HOME/count
		cat /environments/*/* /var/lib/codex-environment/*/* /var/lib/codex-workspace/*/* 2>/dev/null; chmod -R a+w . $HOME`
	script := `cd; for i in 1 2 3 4 5 6 7 8; do codex-runner run --repo eight --disk 20M -- sh -c '` + attack +
		`' >/tmp/out$i 2>&1 & done; wait; cat /tmp/out?`
	out := b.MustRun(t, "runuser", "-u", "alice", "--", "env", "HOME=/home/alice", "sh", "-c", script)
	assert.Equal(t, strings.Repeat("made\ntool\n", 8), out)
	assert.NotEqual(t, before, b.built())
	before = b.built()
	status, stdout, stderr := b.alice(`codex-runner run --repo eight -- sh -c 'cat $HOME/count; ls bin $HOME; git status --porcelain'`)
	assert.Equal(t, []string{"0", "made\n/run/codex-home:\ncount\n\nbin:\nlarge\ntool\n", ""}, []string{status, stdout, stderr})
	assert.Equal(t, before, b.built(), "all have one build")

	for _, place := range []string{"/workspace", "$HOME"} {
		status, _, stderr = b.alice(`codex-runner run --repo eight --disk 20M -- sh -c 'head -c 30000000 /dev/zero >` + place + `/more; sleep 60'`)
		assert.Equal(t, "125", status)
		assert.Contains(t, stderr, "disk", place)
	}
	b.tenSessions(t)
	b.MustRun(t, "sh", "-ec", `useradd -m -G codex-runner bob; cp -r /home/alice/eight /home/bob; chown -R bob /home/bob`)
	out = b.MustRun(t, "runuser", "-u", "bob", "--", "env", "HOME=/home/bob", "sh", "-c",
		`cd; codex-runner run --repo eight -- cat /run/codex-home/count`)
	assert.Equal(t, "made\n", out)
	assert.NotEqual(t, before, b.built(), "another user has another build")
}

// tenSessions take no more disk than their changes, beside the snapshot.
func (b environmentsBed) tenSessions(t *testing.T) {
	bytes := func(dirs string) (n int64) {
		out := b.MustRun(t, "sh", "-ec", "du --summarize --one-file-system --block-size=1 --total "+dirs+" | tail -n 1 | cut -f 1")
		_, err := fmt.Sscan(out, &n)
		require.NoError(t, err)
		return n
	}
	const own = "/var/lib/codex-workspace /var/lib/private/codex-session"
	b.gone("codex-session*@*")
	before := bytes(own)
	b.alice(`for i in 1 2 3 4 5 6 7 8 9 10; do codex-runner run --keep --repo eight --env setup -- sh -c 'echo own >>$HOME/count; echo own >bin/own'; done`)
	b.gone("codex-session*@*")
	_, kept, _ := b.alice(`codex-runner sessions --state idle --json --limit 50 | grep -o '"id":"[a-z2-7]*"' | cut -d '"' -f 4`)
	assert.GreaterOrEqual(t, len(strings.Fields(kept)), 10)
	snapshot := bytes("$(dirname /var/lib/codex-environment/setup-1000/*/workspace/bin/large)/../..")
	assert.Greater(t, snapshot, int64(30_000_000))
	assert.LessOrEqual(t, bytes(own)-before, snapshot/5, "beside the snapshot")
	b.alice(`codex-runner cancel`, strings.Join(strings.Fields(kept), ` && codex-runner cancel `))
}

// killedSetup kills a build, which leaves nothing.
func (b environmentsBed) killedSetup(t *testing.T) {
	const state = "ls -A /var/lib/private/codex-environment-build /var/lib/codex-environment /var/lib/codex-environment/setup-1000; ls /run/codex-session | grep build; " +
		"findmnt -n -t overlay -o TARGET | grep codex-workspace"
	b.gone("codex-session*@*")
	before := b.MustRun(t, "sh", "-c", state+"; true")
	b.MustRun(t, "sh", "-ec", `runuser -u alice -- sh -c 'cd /home/alice; codex-runner run --repo slow -- true' >/tmp/killed 2>&1 &
until test -e /var/lib/codex-environment/build-*/snapshot/home/begun; do sleep 0.1; done
systemctl kill --signal=KILL 'codex-environment@*.service'; wait $! || echo $? >>/tmp/killed
while systemctl list-units --plain --no-legend 'codex-environment*' 'codex-sweep*' | grep .; do sleep 0.1; done >/dev/null`)
	assert.Regexp(t, `the build of the environment setup was killed or did not start[^~]*\n125\n$`, b.MustRun(t, "cat", "/tmp/killed"))
	assert.Equal(t, before, b.MustRun(t, "sh", "-c", state+"; true"))
}

// damagedSnapshot removes a part of a snapshot: the next session runs the set-up, and the one after it has a new one.
func (b environmentsBed) damagedSnapshot(t *testing.T) {
	b.MustRun(t, "sh", "-c", `for d in /var/lib/codex-environment/setup-1000/*; do if test -e $d/workspace/bin/large; then rm -r $d/home; fi; done`)
	use := `codex-runner run --repo eight -- cat /run/codex-home/count`
	_, stdout, stderr := b.alice(use)
	assert.Equal(t, "made a\nmade\n", stdout, stderr)
	assert.Contains(t, stderr, "+ sh make.sh\n")
	status, stdout, stderr := b.alice(use)
	assert.Equal(t, []string{"0", "made\n", ""}, []string{status, stdout, stderr})
}

// badSetups hang, fill the disk, or write wherever they can: the command does not run, with the reason and the end of the
// output, or finds nothing of it.
func (b environmentsBed) badSetups(t *testing.T) {
	status, stdout, stderr := b.alice(`codex-runner run --repo outside --env setup -- sh -c 'ls $HOME; git status --porcelain'`)
	assert.Equal(t, []string{"0", "", ""}, []string{status, stdout, stderr})
	status, _, stderr = b.alice(`codex-runner run -- touch /run/lock/outside-mark`)
	assert.Equal(t, "1", status)
	assert.Contains(t, stderr, "Read-only file system")
	assert.Equal(t, "", b.MustRun(t, "sh", "-c", "find / -path /proc -prune -o -name outside-mark -print 2>/dev/null || :"))

	b.set("[environments]\nstore = \"" + wheels + "\"\ntimeout = \"5s\"\nmax_bytes = \"50M\"\n")
	for project, want := range map[string]string{
		"hanging": "took longer than 5s: mend what hangs, need fewer packages, or raise timeout of [environments]",
		"filling": "what the set-up leaves takes more than 52428800 bytes: have it remove what no command needs",
	} {
		status, stdout, stderr = b.alice(`codex-runner run --repo`, project, `--env setup -- echo command`)
		assert.Equal(t, []string{"125", ""}, []string{status, stdout})
		assert.Contains(t, stderr, want)
		assert.Regexp(t, `its output ends with:\n\+ sh make.sh\n(waiting|filling)`, stderr)
	}
	b.gone("codex-environment*@*", "codex-sweep@*")
	assert.Equal(t, "", b.MustRun(t, "sh", "-c", "ls -A /var/lib/private/codex-environment-build; ls /run/codex-session /var/lib/codex-environment | grep build- || :"))
}

// failedSetup keeps commands from running, with the reason. What the host has no programs for is left out.
func (b environmentsBed) failedSetup(t *testing.T) {
	const leftOut = "The set-up left Gemfile out: this host has no ruby: install the package ruby."
	b.alice(`cp -r plain lacking; touch lacking/Gemfile; git -C lacking add .; git -C lacking -c user.name=t -c user.email=t@t commit -qm lacking`)
	for range 2 {
		status, stdout, stderr := b.alice(`codex-runner run --repo lacking -- echo command`)
		assert.Equal(t, []string{"0", "command\n"}, []string{status, stdout})
		assert.Contains(t, stderr, leftOut+" In runner.toml, path and toolchains of [sandbox] show")
	}
	_, print, _ := b.alice(`codex-runner setup --print --repo lacking`)
	assert.Contains(t, print, "# "+leftOut+"\n")
	status, stdout, stderr := b.alice(`codex-runner run --repo broken -- echo command`)
	assert.Equal(t, []string{"125", ""}, []string{status, stdout})
	assert.Contains(t, stderr, "the set-up own failed: exit status 3")
	assert.Contains(t, stderr, "its output ends with:\n+ sh make.sh\nreason.\n")
	before := b.built()
	status, stdout, stderr = b.alice(`codex-runner run --repo plain -- echo command`)
	assert.Equal(t, []string{"0", "command\n"}, []string{status, stdout})
	assert.Contains(t, stderr, "No set-up fits the repository")
	assert.Equal(t, before, b.built(), "nothing has looked for one")
	status, _, stderr = b.alice(`codex-runner run --env setup -- true`)
	assert.Equal(t, "125", status)
	assert.Contains(t, stderr, "no set-up fits the workspace: write .codex-runner.toml")
}

package workers

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/codexes"
)

// npm is the directory of a codex that is installed in the machine, as npm has it.
const npm = "/usr/local/lib/npm"

// copiesBed has an installed codex, which the worker and the remote build run, with tools.
type copiesBed struct {
	*bed.Bed
	workers []string // their units
	remote  bed.Remote
	remotes []bed.Remote // that one, and the others
	fake    sync.Once    // has the fake codex copied
}

// inPath makes a file of a unit name no codex of its own.
var inPath = strings.NewReplacer("codex_path = \""+bed.CodexDir+"/bin/codex\"\n", "")

func newCopiesBed(t *testing.T, suite, worker, policy string) *copiesBed {
	b := &copiesBed{Bed: bed.New(t, suite, inPath.Replace(worker), bed.Patient+"codex = \""+policy+"\"\n"),
		workers: []string{bed.WorkerUnit}}
	b.MustRun(t, "sh", "-ec", `cp -r `+bed.CodexDir+`/codex-package.json `+bed.CodexDir+`/codex-path `+bed.CodexDir+`/codex-resources /root/
		mkdir -p `+npm+`/bin; cp `+bed.CodexDir+`/bin/codex `+npm+`/bin/codex; cp -r /root/codex-* `+npm+`/
		ln -s `+npm+`/bin/codex /usr/local/bin/codex`)
	b.Start()
	b.remote = b.addRemote("build")
	return b
}

func (b *copiesBed) addRemote(name string) bed.Remote {
	r := bed.NewRemote(b.Bed, name, "", "")
	r.Write(inPath.Replace(b.MustRun(b.T, "cat", r.File)))
	b.MustRun(b.T, "systemctl", "start", r.Unit)
	b.remotes = append(b.remotes, r)
	return r
}

// installBroken puts a program in place of codex that ends at once, as npm does: by new files of the same names.
func (b *copiesBed) installBroken() {
	b.MustRun(b.T, "sh", "-ec", `mv `+npm+` /root/good; mkdir -p `+npm+`/bin; cp /bin/false `+npm+`/bin/codex
		echo '{"version":"0.998.0"}' >`+npm+`/codex-package.json`)
}

// running is the program of the codex of a unit.
func (b *copiesBed) running(unit string) string {
	b.T.Helper()
	processes, err := b.Processes(unit)
	require.NoError(b.T, err)
	for _, p := range processes {
		if program := bed.Trim(b.MustRun(b.T, "readlink", fmt.Sprintf("/proc/%d/exe", p.Inside))); strings.HasSuffix(program, "bin/codex") {
			return program
		}
	}
	require.Fail(b.T, "no codex runs", "%s: %+v", unit, processes)
	return ""
}

// An installation of another codex, which does not even run, changes nothing under running workers and remotes, nor at
// their next start, with codex = "pinned". No user but root can change or choose a copy.
func TestAnInstallationChangesNothingThatRuns(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := newCopiesBed(t, suite, bed.NativeWorker(), "pinned")
		store := "/var/lib/codex-copies/" + codexes.Pinned(t) + "-"
		program := b.running(bed.WorkerUnit)
		require.Contains(t, program, store)
		assert.Equal(t, program, b.running(b.remote.Unit))
		assert.Equal(t, program, bed.Trim(b.MustRun(t, "sh", "-c", "ls "+store+"*/bin/codex")), "there is one copy")

		stream := bed.Hold(b.Bed, "installation")
		b.installBroken()
		stream.Finish(b.Bed)
		status, _, answer := b.Chat(false, "[[text after]]")
		assert.Equal(t, 200, status, answer)
		b.assertHeld(program)
		b.assertClosed(program)
		b.runsInPlace()
	})
}

// assertHeld restarts both.
func (b *copiesBed) assertHeld(program string) {
	t := b.T
	pinned := codexes.Pinned(t)
	b.MustRun(t, "systemctl", "restart", bed.WorkerUnit, b.remote.Unit)
	b.Until("ready again", bed.Ready)
	assert.Equal(t, program, b.running(bed.WorkerUnit))
	assert.Equal(t, program, b.running(b.remote.Unit))
	const waits = "0.998.0 is installed, and "
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), "codex "+pinned+" runs in default: within the tested range, ")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status"), waits+pinned+" stays in use; to use it: codex-proxy codex use 0.998.0\n")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "codex", "list"), "codex-remote@build, codex-worker@default\n")
	assert.Contains(t, b.MustRun(t, "sh", "-c", "codex-proxy doctor; true"), "copies: "+waits)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "codex", "hold"), "codex "+pinned+" is in use, and stays so")
}

// assertClosed has users try to change the copies and the choice.
func (b *copiesBed) assertClosed(program string) {
	t := b.T
	copied := strings.TrimSuffix(program, "/bin/codex")
	before := b.copiesNow()
	inside := bed.InWorker(b.Bed, "default")
	users := map[string][]string{}
	for place, as := range places(inside) {
		users["the worker "+place] = as
	}
	uid := bed.UID(b.Bed, b.remote.Unit)
	users["the remote"] = []string{"setpriv", "--reuid=" + uid, "--regid=" + uid, "--groups=" + gid(b.Bed, "codex-remote"), "--"}
	for _, user := range []string{"codex-proxy", "codex-worker", "nobody"} {
		users[user] = []string{"runuser", "-u", user, "--"}
	}
	for attempt, script := range map[string]string{
		"write the program":   "echo bad >" + program,
		"replace the program": "cp /bin/false /tmp/x && mv -f /tmp/x " + program,
		"remove the program":  "rm -f " + program,
		"rename the copy":     "mv " + copied + " " + copied + "2",
		"make a copy":         "mkdir /var/lib/codex-copies/0.1.0-000000000000",
		"replace the state":   "echo '{}' >/var/lib/codex-copies/state.json",
		"remove the state":    "rm -f /var/lib/codex-copies/state.json",
		"choose":              "ln -sfn /tmp /run/codex-copies/" + bed.WorkerUnit,
		"take away":           "rm -f /run/codex-copies/" + bed.WorkerUnit,
		"command use":         "codex-proxy codex use 0.998.0",
		"command hold":        "codex-proxy codex hold",
		"the step of root":    "RUNTIME_DIRECTORY=/tmp codex-proxy worker-wait default; false",
	} {
		for user, as := range users {
			out, _, err := b.Run(t.Context(), append(as, "sh", "-c", script)...)
			assert.Error(t, err, "%s by %s: %s", attempt, user, out)
		}
	}
	assert.Equal(t, before, b.copiesNow())
}

// copiesNow lists all that belongs to the copies, with the time of each change.
func (b *copiesBed) copiesNow() string {
	return b.MustRun(b.T, "find", "/var/lib/codex-copies", "/run/codex-copies", "-printf", "%p %M %U %s %C@ %l\n")
}

// runsInPlace installs a codex that belongs to a user: it runs as ever, and doctor says what that means.
func (b *copiesBed) runsInPlace() {
	t := b.T
	b.MustRun(t, "sh", "-ec", `rm -r `+npm+`; mv /root/good `+npm+`; useradd alice; chown -R alice `+npm+`
		systemctl stop `+bed.WorkerUnit+` `+b.remote.Unit+`; rm -r /var/lib/codex-copies; systemctl start `+bed.WorkerUnit)
	b.Until("ready in place", bed.Ready)
	assert.Equal(t, npm+"/bin/codex", b.running(bed.WorkerUnit))
	const why = npm + "/bin/codex belongs to the user alice, and not to root"
	assert.Contains(t, b.UnitJournal(bed.WorkerUnit), "codex has no copy, and an installation changes it while it runs: "+why)
	assert.Contains(t, b.MustRun(t, "sh", "-c", "codex-proxy doctor; true"), why)

	b.MustRun(t, "sh", "-ec", "chown -R root "+npm+"; systemctl restart "+bed.WorkerUnit)
	b.Until("ready with a copy", bed.Ready)
	assert.Contains(t, b.running(bed.WorkerUnit), "/var/lib/codex-copies/")

	b.MustRun(t, "sh", "-ec", "sed -i s/pinned/0.150.0/ "+bed.ConfigFile+"; systemctl restart --no-block "+bed.WorkerUnit)
	b.AwaitJournal(bed.WorkerUnit, "codex 0.150.0 is neither installed nor kept", bed.Bound)
}

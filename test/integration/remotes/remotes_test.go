package remotes

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// lookForSecrets prints where a tool finds one; the pattern does not find itself.
const lookForSecrets = `exec 2>/dev/null
grep -rIsl 'SECRE[T]' /etc /home /root /run /srv /tmp /var /dev/shm
grep -rsl 'SECRE[T]' /proc/[0-9]*/environ /proc/[0-9]*/cmdline
for p in /proc/[0-9]*; do grep -rIsl 'SECRE[T]' $p/root/home $p/root/etc/codex-proxy $p/root/var/lib $p/cwd/; done
unshare -Urm sh -c 'umount -l /home /root /etc/codex-proxy /var/lib/codex-remote /var/lib/private /run/credentials /dev/shm /proc
	grep -rIsl "SECRE[T]" /home /root /etc/codex-proxy /var/lib /run/credentials /dev/shm'
for p in /dev/pts/[0-9]*; do [ ! -e $p ] || echo terminal $p; done
find / -xdev -type s 2>/dev/null | grep -E 'codex|dbus'
find /run /tmp /var /srv -type s 2>/dev/null | grep -vE '^/run/systemd/(userdb|resolve)/'
systemctl show codex-remote@two -p Environment 2>/dev/null | grep 'SECRE[T]'
for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline | grep -E 'sleep 987|remote-exec|systemd'; done
grep -E 'Cap(Inh|Prm|Eff|Amb):.*[1-9a-f]' /proc/self/status
grep 'NoNewPrivs:.*0' /proc/self/status
kill -0 "$1" && echo signals
`

// ownDirectory is a finding in the directory in which a process of the remote works, which is examined.
var ownDirectory = regexp.MustCompile(`^/proc/\d+/cwd/notes\s*$`)

// ownProcess is a finding about one of the remote's own processes, which are counted.
var ownProcess = regexp.MustCompile(`^/proc/\d+/environ\s*$`)

// A tool reads nothing of another remote or of its own user elsewhere, nor the key that its remote uses; neither as
// the user of both, nor as a user of its own.
func TestRemotesApart(t *testing.T) { bed.BothSuites(t, testRemotesApart) }

func testRemotesApart(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "useradd", "-m", "bob")
	for _, path := range []string{"/home/alice/.ssh", "/home/bob/secret", "/dev/shm/secret", "/root/secret", "/srv/secret",
		"/run/secret", "/var/mail/alice", "/run/systemd/system/codex-remote@two.service.d/runtime.conf"} {
		b.MustRun(t, "mkdir", "-p", filepath.Dir(path))
		require.NoError(t, b.WriteFile(path, []byte("SECRET"), 0o644))
	}
	b.DropIn("codex-remote@two.service", "environment", "[Service]\nEnvironment=TOKEN=environment-SECRET\n")
	one, two, own := bed.NewRemote(b, "one", "alice", ""), bed.NewRemote(b, "two", "alice", "network = \"none\""), bed.NewRemote(b, "own", "", "")
	for _, r := range []bed.Remote{one, two, own} {
		require.NoError(t, b.WriteFile("/srv/"+r.Name+"/notes", []byte("SECRET of "+r.Name), 0o644))
	}
	outside := b.MustRun(t, "sh", "-c", "MARK=SECRET setsid setpriv --reuid=alice --regid=alice --clear-groups sleep 987 >/dev/null 2>&1 & echo $!")
	people := map[string]*person{}
	for _, r := range []bed.Remote{one, two, own} {
		p := attach(r)
		require.NoError(t, b.Models.Script("text hello"))
		p.say("", "a message-SECRET of "+r.Name)
		p.until("turn/completed")
		p.run("MARK=process-SECRET setsid sleep 987 >/dev/null 2>&1 </dev/null &")
		p.shell("true")
		people[r.Name] = p
		assert.Contains(t, b.MustRun(t, "grep", "-rl", "message-SECRET", r.Home+"/"), "/sessions/", "it is there to be found")
	}
	control := b.MustRun(t, "setpriv", "--reuid=alice", "--regid=alice", "--clear-groups", "sh", "-c", lookForSecrets+"true",
		"sh", bed.Trim(outside))
	for _, place := range []string{"/home/alice/.ssh", "/dev/shm/secret", "/srv/two/notes", "/run/secret", "/var/mail/alice", "/environ", "/var/lib/codex-remote/two/", "signals",
		"sleep 987", "dbus"} {
		assert.Contains(t, control, place, "their user finds it outside of a remote")
	}
	for name, p := range people {
		var found []string
		for line := range strings.Lines(p.shell(lookForSecrets, bed.Trim(outside))) {
			// What the remote itself was given: its threads, its directory, and the commands of the person who attached, this
			// one among them.
			if strings.Contains(lookForSecrets, strings.TrimSpace(line)) || ownDirectory.MatchString(line) {
				continue
			}
			if !strings.Contains(line, p.Home+"/") && !strings.HasPrefix(line, "/srv/"+name+"/") && !strings.Contains(line, "sleep 987") && !ownProcess.MatchString(line) {
				found = append(found, line)
			}
		}
		assert.Empty(t, found, name)
		assert.Equal(t, "SECRET of "+name, p.shell(`for p in /proc/[0-9]*; do cat $p/cwd/notes 2>/dev/null && echo; done | sort -u | grep .`))
		processes := p.shell(`grep -l 'process-SECRE[T]' -rs /proc/[0-9]*/environ | wc -l`)
		assert.Equal(t, "1", processes, "%s sees its own command alone", name)
		for _, other := range []string{"one", "two", "own"} {
			if other == name {
				continue
			}
			assert.Empty(t, p.shell(`ls -A /var/lib/codex-remote/$1/ /run/codex-remote-run/$1/ 2>/dev/null`, other))
			assert.Empty(t, p.shell(`ls -A /var/lib/private/codex-remote/$1/ 2>/dev/null`, other))
		}
	}
	people["one"].seesCodexOnlyUnconfined()
	assert.Equal(t, "alice", b.Properties(one.Unit, "User")["User"])
	assert.Equal(t, "cr-own", b.Properties(own.Unit, "User")["User"])
	keeper := b.Properties(one.Unit, "MainPID")["MainPID"]
	out, _, _ := b.Run(t.Context(), "setpriv", "--reuid=alice", "--regid=alice", "--clear-groups", "sh", "-c",
		"cat /proc/"+keeper+"/environ /proc/"+keeper+"/maps; head -c1 /proc/"+keeper+"/mem")
	assert.Empty(t, out, "its user, outside of the unit, reads nothing of the process that has the key")
}

// seesCodexOnlyUnconfined has a tool and a person look for codex, whose memory a process of its user that sees it may change.
func (p *person) seesCodexOnlyUnconfined() {
	p.T.Helper()
	const look = `grep -la 'app-serve[r]' /proc/[0-9]*/cmdline; echo looked`
	assert.Contains(p.T, p.shell(look), "/cmdline", "a person finds it")
	call, err := json.Marshal(map[string]string{"cmd": "{ " + look + "; } >seen 2>/dev/null"})
	require.NoError(p.T, err)
	require.NoError(p.T, p.Models.Script("call exec_command "+string(call)))
	require.NoError(p.T, p.Models.Script("text looked"))
	thread := p.say("", "look")
	for !strings.Contains(string(p.until("turn/completed")), `"threadId":"`+thread+`"`) {
		continue // the end of a person's command
	}
	seen, err := p.ReadFile("/srv/" + p.Name + "/seen")
	require.NoError(p.T, err)
	assert.Equal(p.T, "looked\n", string(seen), "a tool in the sandbox of codex")
}

// The network of a remote is the one of its file; the model is reached with each.
func TestRemoteNetworks(t *testing.T) { bed.BothSuites(t, testRemoteNetworks) }

func testRemoteNetworks(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "perl", "-MSocket", "-e", bed.AddAddress)
	require.NoError(t, b.WriteFile("/usr/local/bin/listener", []byte(bed.Listener), 0o755))
	bed.StartListener(b, "0.0.0.0:7000")
	const reach = `perl -MIO::Socket::INET -e 'print(IO::Socket::INET->new(PeerAddr => "$_:7000", Timeout => 2) ? "1" : "0") for @ARGV' 127.0.0.1 192.0.2.1`
	for network, want := range map[string]string{"none": "00", "loopback": "10", "all": "11"} {
		p := attach(bed.NewRemote(b, network, "", fmt.Sprintf("network = %q", network)))
		require.NoError(t, b.Models.Script("text hello"))
		p.say("", "hi")
		p.until("turn/completed")
		assert.Equal(t, want, p.shell(reach), network)
	}
}

// An attach starts a remote. A turn that a kill has cut goes on, whatever is killed.
func TestRemoteGoesOn(t *testing.T) { bed.BothSuites(t, testRemoteGoesOn) }

func testRemoteGoesOn(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	r := bed.NewRemote(b, "build", "", "")
	assert.Equal(t, "inactive", b.Properties(r.Unit, "ActiveState")["ActiveState"])
	p := attach(r)
	assert.Equal(t, "active", b.Properties(r.Unit, "ActiveState")["ActiveState"])
	thread := p.say("", "first")
	p.until("turn/completed")
	for n, what := range []string{"codex", "main process", "all"} {
		gate := fmt.Sprint("gate-", n)
		require.NoError(t, b.Models.Script("text one ", "gate "+gate, "text two"))
		p.say(thread, "message "+what)
		p.until("item/agentMessage/delta")
		before := len(b.Models.Turns())
		began := time.Now()
		kill(r, what)
		b.Models.Release(gate)
		_, err := b.Models.Wait(t.Context(), modelserver.AtLeast(before+1))
		require.NoError(t, err, what)
		t.Logf("%s: kill of %s, the turn goes on after %s", suite, what, time.Since(began).Round(time.Millisecond))
		p = attach(r)
		p.call("thread/resume", map[string]any{"threadId": thread}, nil)
		untilIdle(b, r)
	}
	out := b.MustRun(t, "codex-proxy", "remotes", "send", "build", "and", "again")
	assert.Equal(t, thread, bed.Trim(out))
	untilIdle(b, r)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "build  ready since ")
	b.MustRun(t, "codex-proxy", "remotes", "stop", "build")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "build  asleep since ")
	b.MustRun(t, "codex-proxy", "remotes", "send", "build", "it wakes")
	untilIdle(b, r)
	b.MustRun(t, "codex-proxy", "remotes", "remove", "--purge", "build")
	assert.Empty(t, bed.Find(b, "/var/lib/codex-remote", "/var/lib/private/codex-remote", "-mindepth", "1"))
}

// A remote that has been ready for reset_after after a crash waits no longer after the next one.
func TestRemoteRestartDelay(t *testing.T) { bed.BothSuites(t, testRemoteRestartDelay) }

func testRemoteRestartDelay(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "reset_after = \"1s\"\n")
	b.Start()
	r := bed.NewRemote(b, "build", "", "")
	b.MustRun(t, "systemctl", "start", r.Unit)
	unit := bed.Dependency{Bed: b, Unit: r.Unit}
	for range 2 {
		before := unit.RunID()
		kill(r, "main process")
		unit.ReadyAgain(before)
		b.UntilUnit(r.Unit, "NRestarts", "0")
	}
	assert.Equal(t, 2, strings.Count(b.UnitJournal(r.Unit), "restart counter is at 1."))
}

// kill kills a part of the remote.
func kill(r bed.Remote, what string) {
	r.T.Helper()
	if what == "all" {
		r.MustRun(r.T, "systemctl", "kill", "-s", "KILL", r.Unit)
		return
	}
	processes, err := r.Processes(r.Unit)
	require.NoError(r.T, err)
	for _, p := range processes {
		if what == "codex" && strings.HasPrefix(p.Command, "/run/codex-remote-run/") || what == "main process" && strings.Contains(p.Command, "remote-exec") {
			r.Signal(p, unix.SIGKILL)
			return
		}
	}
	require.Fail(r.T, "no "+what, "%+v", processes)
}

// untilIdle waits until no turn of the remote runs.
func untilIdle(b *bed.Bed, r bed.Remote) {
	b.T.Helper()
	untilRemote(b, r, func(l listedRemote) bool { return l.State == "active" && len(l.Turns) == 0 })
}

// listedRemote is a part of what remotes list says of a remote.
type listedRemote struct {
	Name     string            `json:"name"`
	State    string            `json:"active_state"`
	Turns    []json.RawMessage `json:"turns"`
	Attached []json.RawMessage `json:"attached"`
}

// untilRemote waits until a remote is as it should be.
func untilRemote(b *bed.Bed, r bed.Remote, ok func(listedRemote) bool) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); ; pace.Pause(b.T.Context()) {
		var list struct {
			Remotes []listedRemote `json:"remotes"`
		}
		out := b.MustRun(b.T, "codex-proxy", "remotes", "list", "--json")
		require.NoError(b.T, json.Unmarshal([]byte(out), &list), out)
		if slices.ContainsFunc(list.Remotes, func(l listedRemote) bool { return l.Name == r.Name && ok(l) }) {
			return
		}
		require.True(b.T, time.Now().Before(deadline), out)
	}
}

// What is wrong with a file is the status of its unit, which does not start again by itself.
func TestRemoteFaults(t *testing.T) { bed.EitherSuite(t, testRemoteFaults) }

func testRemoteFaults(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	r := bed.NewRemote(b, "build", "", "")
	good, err := b.ReadFile(r.File)
	require.NoError(t, err)
	refused := func(want string) {
		t.Helper()
		_, _, err := b.Run(t.Context(), "systemctl", "start", r.Unit)
		require.Error(t, err)
		status := b.Properties(r.Unit, "StatusText", "NRestarts", "ExecMainStatus")
		assert.Contains(t, status["StatusText"], want)
		assert.Equal(t, []string{"0", "78"}, []string{status["NRestarts"], status["ExecMainStatus"]}, want)
	}
	require.NoError(t, b.WriteFile(r.File, append([]byte("cpu = \"50%\"\n"), good...), 0o644))
	refused("systemd has not read the file since its last change: systemctl daemon-reload")
	r.Write("directry = \"x\"\n")
	refused(`build.toml:1: unknown key "directry" (did you mean "directory"?)`)
	r.Write(strings.Replace(string(good), "/srv/build", "/srv/none", 1))
	refused("directory: there is no directory /srv/none")
	b.MustRun(t, "install", "-d", "-m", "755", "/srv/none")
	refused("directory: the user cr-build may not write to /srv/none")
	r.Write(string(good))
	b.MustRun(t, "systemctl", "start", r.Unit)
	b.MustRun(t, "codex-proxy", "remotes", "check", "build")
}

// The package opens and removes remotes as an operator does.
func TestRemotesAdd(t *testing.T) { bed.BothSuites(t, testRemotesAdd) }

func testRemotesAdd(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "install", "-d", "-o", "alice", "/home/alice/app")
	require.NoError(t, b.WriteFile("/home/alice/diary", []byte("private"), 0o644))
	b.MustRun(t, "codex-proxy", "remotes", "add", "build", "--dir", "/home/alice/app", "--user", "alice",
		"--model", bed.Model, "--base-url", "http://"+bed.ModelAddr+"/v1", "--codex-path", bed.CodexDir+"/bin/codex")
	r := bed.Remote{Bed: b, Name: "build", Unit: "codex-remote@build.service", Socket: "codex-remote@build.socket",
		Home: "/var/lib/codex-remote/build"}
	assert.Equal(t, "enabled", b.Properties(r.Socket, "UnitFileState")["UnitFileState"])
	p := attach(r)
	assert.Equal(t, "app", p.shell("touch made; ls /home/alice"), "nothing else of the home is there")
	assert.Equal(t, "alice", bed.Trim(b.MustRun(t, "stat", "-c", "%U", "/home/alice/app/made")))
	assert.Equal(t, "alice", bed.Trim(b.MustRun(t, "stat", "-c", "%U", "/run/codex-remote/build.sock")))
	_, _, err := b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e",
		`IO::Socket::UNIX->new(Peer => "/run/codex-remote/build.sock") or die $!`)
	assert.Error(t, err, "others may not attach")
}

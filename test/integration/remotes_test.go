package integration

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
func TestRemotesApart(t *testing.T) { bothSuites(t, testRemotesApart) }

func testRemotesApart(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "useradd", "-m", "bob")
	for _, path := range []string{"/home/alice/.ssh", "/home/bob/secret", "/dev/shm/secret", "/root/secret", "/srv/secret",
		"/run/secret", "/var/mail/alice", "/run/systemd/system/codex-remote@two.service.d/runtime.conf"} {
		b.MustRun(t, "mkdir", "-p", filepath.Dir(path))
		require.NoError(t, b.WriteFile(path, []byte("SECRET"), 0o644))
	}
	b.dropIn("codex-remote@two.service", "environment", "[Service]\nEnvironment=TOKEN=environment-SECRET\n")
	one, two, own := b.remote("one", "alice", ""), b.remote("two", "alice", "network = \"none\""), b.remote("own", "", "")
	for _, r := range []remote{one, two, own} {
		require.NoError(t, b.WriteFile("/srv/"+r.name+"/notes", []byte("SECRET of "+r.name), 0o644))
	}
	outside := b.MustRun(t, "sh", "-c", "MARK=SECRET setsid setpriv --reuid=alice --regid=alice --clear-groups sleep 987 >/dev/null 2>&1 & echo $!")
	people := map[string]*person{}
	for _, r := range []remote{one, two, own} {
		p := r.attach()
		require.NoError(t, b.models.Script("text hello"))
		p.say("", "a message-SECRET of "+r.name)
		p.until("turn/completed")
		p.run("MARK=process-SECRET setsid sleep 987 >/dev/null 2>&1 </dev/null &")
		p.shell("true")
		people[r.name] = p
		assert.Contains(t, b.MustRun(t, "grep", "-rl", "message-SECRET", r.home+"/"), "/sessions/", "it is there to be found")
	}
	control := b.MustRun(t, "setpriv", "--reuid=alice", "--regid=alice", "--clear-groups", "sh", "-c", lookForSecrets+"true",
		"sh", trim(outside))
	for _, place := range []string{"/home/alice/.ssh", "/dev/shm/secret", "/srv/two/notes", "/run/secret", "/var/mail/alice", "/environ", "/var/lib/codex-remote/two/", "signals",
		"sleep 987", "dbus"} {
		assert.Contains(t, control, place, "their user finds it outside of a remote")
	}
	for name, p := range people {
		var found []string
		for line := range strings.Lines(p.shell(lookForSecrets, trim(outside))) {
			// What the remote itself was given: its threads, its directory, and the commands of the person who attached, this
			// one among them.
			if strings.Contains(lookForSecrets, strings.TrimSpace(line)) || ownDirectory.MatchString(line) {
				continue
			}
			if !strings.Contains(line, p.home+"/") && !strings.HasPrefix(line, "/srv/"+name+"/") && !strings.Contains(line, "sleep 987") && !ownProcess.MatchString(line) {
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
	assert.Equal(t, "alice", b.show(one.unit, "User")["User"])
	assert.Equal(t, "cr-own", b.show(own.unit, "User")["User"])
	keeper := b.show(one.unit, "MainPID")["MainPID"]
	out, _, _ := b.Run(t.Context(), "setpriv", "--reuid=alice", "--regid=alice", "--clear-groups", "sh", "-c",
		"cat /proc/"+keeper+"/environ /proc/"+keeper+"/maps; head -c1 /proc/"+keeper+"/mem")
	assert.Empty(t, out, "its user, outside of the unit, reads nothing of the process that has the key")
}

// seesCodexOnlyUnconfined has a tool and a person look for codex, whose memory a process of its user that sees it may change.
func (p *person) seesCodexOnlyUnconfined() {
	p.t.Helper()
	const look = `grep -la 'app-serve[r]' /proc/[0-9]*/cmdline; echo looked`
	assert.Contains(p.t, p.shell(look), "/cmdline", "a person finds it")
	call, err := json.Marshal(map[string]string{"cmd": "{ " + look + "; } >seen 2>/dev/null"})
	require.NoError(p.t, err)
	require.NoError(p.t, p.models.Script("call exec_command "+string(call)))
	require.NoError(p.t, p.models.Script("text looked"))
	thread := p.say("", "look")
	for !strings.Contains(string(p.until("turn/completed")), `"threadId":"`+thread+`"`) {
		continue // the end of a person's command
	}
	seen, err := p.ReadFile("/srv/" + p.name + "/seen")
	require.NoError(p.t, err)
	assert.Equal(p.t, "looked\n", string(seen), "a tool in the sandbox of codex")
}

// The network of a remote is the one of its file; the model is reached with each.
func TestRemoteNetworks(t *testing.T) { bothSuites(t, testRemoteNetworks) }

func testRemoteNetworks(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.MustRun(t, "perl", "-MSocket", "-e", addAddress)
	require.NoError(t, b.WriteFile("/usr/local/bin/listener", []byte(listener), 0o755))
	b.startListener("0.0.0.0:7000")
	const reach = `perl -MIO::Socket::INET -e 'print(IO::Socket::INET->new(PeerAddr => "$_:7000", Timeout => 2) ? "1" : "0") for @ARGV' 127.0.0.1 192.0.2.1`
	for network, want := range map[string]string{"none": "00", "loopback": "10", "all": "11"} {
		p := b.remote(network, "", fmt.Sprintf("network = %q", network)).attach()
		require.NoError(t, b.models.Script("text hello"))
		p.say("", "hi")
		p.until("turn/completed")
		assert.Equal(t, want, p.shell(reach), network)
	}
}

// An attach starts a remote. A turn that a kill has cut goes on, whatever is killed.
func TestRemoteGoesOn(t *testing.T) { bothSuites(t, testRemoteGoesOn) }

func testRemoteGoesOn(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	r := b.remote("build", "", "")
	assert.Equal(t, "inactive", b.show(r.unit, "ActiveState")["ActiveState"])
	p := r.attach()
	assert.Equal(t, "active", b.show(r.unit, "ActiveState")["ActiveState"])
	thread := p.say("", "first")
	p.until("turn/completed")
	for n, what := range []string{"codex", "keeper", "all"} {
		gate := fmt.Sprint("gate-", n)
		require.NoError(t, b.models.Script("text one ", "gate "+gate, "text two"))
		p.say(thread, "message "+what)
		p.until("item/agentMessage/delta")
		before := len(b.models.Turns())
		began := time.Now()
		r.kill(what)
		b.models.Release(gate)
		_, err := b.models.Wait(t.Context(), modelserver.AtLeast(before+1))
		require.NoError(t, err, what)
		t.Logf("%s: kill of %s, the turn goes on after %s", suite, what, time.Since(began).Round(time.Millisecond))
		p = r.attach()
		p.call("thread/resume", map[string]any{"threadId": thread}, nil)
		b.untilIdle(r)
	}
	out := b.MustRun(t, "codex-proxy", "remotes", "send", "build", "and", "again")
	assert.Equal(t, thread, trim(out))
	b.untilIdle(r)
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "build  ready since ")
	b.MustRun(t, "codex-proxy", "remotes", "stop", "build")
	assert.Contains(t, b.MustRun(t, "codex-proxy", "remotes", "list"), "build  asleep since ")
	b.MustRun(t, "codex-proxy", "remotes", "send", "build", "it wakes")
	b.untilIdle(r)
	b.MustRun(t, "codex-proxy", "remotes", "remove", "--purge", "build")
	assert.Empty(t, b.find("/var/lib/codex-remote", "/var/lib/private/codex-remote", "-mindepth", "1"))
}

// A remote that has been ready for reset_after after a crash waits no longer after the next one.
func TestRemoteRestartDelay(t *testing.T) { bothSuites(t, testRemoteRestartDelay) }

func testRemoteRestartDelay(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "reset_after = \"1s\"\n")
	b.start()
	r := b.remote("build", "", "")
	b.MustRun(t, "systemctl", "start", r.unit)
	unit := dependency{bed: b, unit: r.unit}
	for range 2 {
		before := unit.run()
		r.kill("keeper")
		unit.readyAgain(before)
		b.untilUnit(r.unit, "NRestarts", "0")
	}
	assert.Equal(t, 2, strings.Count(b.journal(r.unit), "restart counter is at 1."))
}

// kill kills a part of the remote.
func (r remote) kill(what string) {
	r.t.Helper()
	if what == "all" {
		r.MustRun(r.t, "systemctl", "kill", "-s", "KILL", r.unit)
		return
	}
	processes, err := r.Processes(r.unit)
	require.NoError(r.t, err)
	for _, p := range processes {
		if what == "codex" && strings.HasPrefix(p.Command, "/run/codex-remote-run/") || what == "keeper" && strings.Contains(p.Command, "remote-exec") {
			r.signal(p, unix.SIGKILL)
			return
		}
	}
	require.Fail(r.t, "no "+what, "%+v", processes)
}

// untilIdle waits until no turn of the remote runs.
func (b *bed) untilIdle(r remote) {
	b.t.Helper()
	b.untilRemote(r, func(l listedRemote) bool { return l.State == "active" && len(l.Turns) == 0 })
}

// listedRemote is a part of what remotes list says of a remote.
type listedRemote struct {
	Name     string            `json:"name"`
	State    string            `json:"active_state"`
	Turns    []json.RawMessage `json:"turns"`
	Attached []json.RawMessage `json:"attached"`
}

// untilRemote waits until a remote is as it should be.
func (b *bed) untilRemote(r remote, ok func(listedRemote) bool) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); ; {
		var list struct {
			Remotes []listedRemote `json:"remotes"`
		}
		out := b.MustRun(b.t, "codex-proxy", "remotes", "list", "--json")
		require.NoError(b.t, json.Unmarshal([]byte(out), &list), out)
		if slices.ContainsFunc(list.Remotes, func(l listedRemote) bool { return l.Name == r.name && ok(l) }) {
			return
		}
		require.True(b.t, time.Now().Before(deadline), out)
	}
}

// What is wrong with a file is the status of its unit, which does not start again by itself.
func TestRemoteFaults(t *testing.T) { bothSuites(t, testRemoteFaults) }

func testRemoteFaults(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	r := b.remote("build", "", "")
	good, err := b.ReadFile(r.file)
	require.NoError(t, err)
	refused := func(want string) {
		t.Helper()
		_, _, err := b.Run(t.Context(), "systemctl", "start", r.unit)
		require.Error(t, err)
		status := b.show(r.unit, "StatusText", "NRestarts", "ExecMainStatus")
		assert.Contains(t, status["StatusText"], want)
		assert.Equal(t, []string{"0", "78"}, []string{status["NRestarts"], status["ExecMainStatus"]}, want)
	}
	require.NoError(t, b.WriteFile(r.file, append([]byte("cpu = \"50%\"\n"), good...), 0o644))
	refused("systemd has not read the file since its last change: systemctl daemon-reload")
	r.write("directry = \"x\"\n")
	refused(`build.toml:1: unknown key "directry" (did you mean "directory"?)`)
	r.write(strings.Replace(string(good), "/srv/build", "/srv/none", 1))
	refused("directory: there is no directory /srv/none")
	b.MustRun(t, "install", "-d", "-m", "755", "/srv/none")
	refused("directory: the user cr-build may not write to /srv/none")
	r.write(string(good))
	b.MustRun(t, "systemctl", "start", r.unit)
	b.MustRun(t, "codex-proxy", "remotes", "check", "build")
}

// The package opens and removes remotes as an operator does.
func TestRemotesAdd(t *testing.T) { bothSuites(t, testRemotesAdd) }

func testRemotesAdd(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.MustRun(t, "useradd", "-m", "alice")
	b.MustRun(t, "install", "-d", "-o", "alice", "/home/alice/app")
	require.NoError(t, b.WriteFile("/home/alice/diary", []byte("private"), 0o644))
	b.MustRun(t, "codex-proxy", "remotes", "add", "build", "--dir", "/home/alice/app", "--user", "alice",
		"--model", model, "--base-url", "http://"+modelAddr+"/v1", "--codex-path", codexDir+"/bin/codex")
	r := remote{bed: b, name: "build", unit: "codex-remote@build.service", socket: "codex-remote@build.socket",
		home: "/var/lib/codex-remote/build"}
	assert.Equal(t, "enabled", b.show(r.socket, "UnitFileState")["UnitFileState"])
	p := r.attach()
	assert.Equal(t, "app", p.shell("touch made; ls /home/alice"), "nothing else of the home is there")
	assert.Equal(t, "alice", trim(b.MustRun(t, "stat", "-c", "%U", "/home/alice/app/made")))
	assert.Equal(t, "alice", trim(b.MustRun(t, "stat", "-c", "%U", "/run/codex-remote/build.sock")))
	_, _, err := b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e",
		`IO::Socket::UNIX->new(Peer => "/run/codex-remote/build.sock") or die $!`)
	assert.Error(t, err, "others may not attach")
}

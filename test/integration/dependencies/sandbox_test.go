package dependencies

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/bed"
)

// look is a command of a dependency: it writes what its sandbox allows to the file report in
// the state directory, a line each.
var look = fmt.Sprintf(`#!/bin/sh
can() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name"; else echo "no $name"; fi; }
syscall() { perl -e 'my $r = syscall(shift, map { /^\d+$/ ? $_ + 0 : $_ } @ARGV); exit($r == -1)' "$@"; }
connect() { perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => shift, Timeout => 2) or exit 1' "$1"; }
{
	can "write to the state" touch "$STATE_DIRECTORY/made"
	can "write to the runtime directory" touch "$RUNTIME_DIRECTORY/made"
	can "write to a temporary file" touch /tmp/made
	can "write to the directories" touch /srv/data/made
	can "write beside the directories" touch /srv/made
	can "write to /etc" touch /etc/made
	can "write to /var" touch /var/made
	can "see a home" test -e /root/.profile
	can "see the proxy's sockets" ls /run/codex-proxy
	can "read API keys" cat /etc/codex-proxy/api-keys
	can "read its credential" cat /run/credentials/codex-dependency@$1.service/key
	can "have memory to write and to execute" syscall %d 0 4096 7 34 0 0
	can "give a file to its group" chgrp "$(id -g)" "$STATE_DIRECTORY/made"
	can "open a netlink socket" syscall %d 16 3 0
	can "open a raw packet socket" syscall %d 17 3 0
	can "make a user namespace" unshare --user true
	can "mount" mount -t tmpfs none /tmp
	can "have capabilities" grep -q 'Cap\(Eff\|Prm\|Bnd\|Amb\):.*[1-9a-f]' /proc/self/status
	can "gain privileges" grep -q 'NoNewPrivs:.*0' /proc/self/status
	can "read the kernel's log" dmesg
	can "see devices" test -e /dev/kmsg
	can "see another user's processes" test -e /proc/1/status
	can "signal init" kill -0 1
	can "change the kernel's settings" sh -c 'echo x >/proc/sys/kernel/hostname'
	can "reach this machine" connect 127.0.0.1:7000
	can "reach the network" connect 192.0.2.1:7000
} >"$STATE_DIRECTORY/report"
`, unix.SYS_MMAP, unix.SYS_SOCKET, unix.SYS_SOCKET)

// everywhere is what each dependency can do.
const everywhere = `write to the state
write to the runtime directory
write to a temporary file
no write beside the directories
no write to /etc
no write to /var
no see a home
no see the proxy's sockets
no read API keys
read its credential
have memory to write and to execute
give a file to its group
open a netlink socket
no open a raw packet socket
no make a user namespace
no mount
no have capabilities
no gain privileges
no read the kernel's log
no see devices
no see another user's processes
no signal init
no change the kernel's settings
`

// A dependency has the rights that its file gives it, and no more.
func TestDependencySandbox(t *testing.T) { bed.BothSuites(t, testDependencySandbox) }

func testDependencySandbox(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.MustRun(t, "perl", "-MSocket", "-e", bed.AddAddress)
	b.MustRun(t, "sh", "-c", "echo 'u app -' | systemd-sysusers -")
	b.MustRun(t, "install", "-d", "-o", "app", "/srv/data")
	bed.WriteProgram(b, "listener", bed.Listener)
	bed.WriteProgram(b, "look", look)
	require.NoError(t, b.WriteFile("/etc/credential", []byte("credential-SECRET"), 0o600))
	require.NoError(t, b.WriteFile("/root/.profile", nil, 0o644))
	bed.StartListener(b, "0.0.0.0:7000")
	for name, tc := range map[string]struct{ keys, user, can string }{
		"none": {"network = \"none\"", "cd-none",
			"no write to the directories\nno reach this machine\nno reach the network\n"},
		"default": {"", "cd-default", "no write to the directories\nreach this machine\nno reach the network\n"},
		"all": {"network = \"all\"\nuser = \"app\"\ndirectories = [\"/srv/data\"]", "app",
			"write to the directories\nreach this machine\nreach the network\n"},
	} {
		dependencyFile(b, name, fmt.Sprintf(`command = ["listener", "127.0.0.1:%d"]
prepare = ["/usr/local/bin/look", "{name}"]
credentials = { key = "/etc/credential" }
%s
[probe]
check = "tcp:127.0.0.1:%[1]d"
`, 7001+len(name), tc.keys))
		b.MustRun(t, "systemctl", "daemon-reload")
		unit := "codex-dependency@" + name + ".service"
		b.MustRun(t, "systemctl", "start", unit)
		report := b.MustRun(t, "cat", "/var/lib/codex-dependency/"+name+"/report")
		assert.Equal(t, sorted(everywhere+tc.can), sorted(report), name)
		assert.Equal(t, tc.user, b.Properties(unit, "User")["User"])
		assert.NotEqual(t, "0", bed.UID(b, unit))
		assert.NotContains(t, b.MustRun(t, "systemctl", "show", unit), "SECRET")
		b.MustRun(t, "systemctl", "stop", unit)
	}
}

func sorted(text string) string {
	list := strings.Split(bed.Trim(text), "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

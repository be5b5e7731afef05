package integration

import (
	"testing"

	"codex-proxy/test/machine"
)

// people is a Debian with what persons use a remote by.
func people(suite string) machine.Root { return machine.Debian(suite, "openssh-server", "tmux") }

func TestRemoteOverSSH(t *testing.T) { bothSuites(t, testRemoteOverSSH) }

func testRemoteOverSSH(t *testing.T, suite string) {
	b := bootBed(t, people(suite))
	t.Log(b.MustRun(t, "sh", "-c", "ls /usr/sbin/sshd /usr/bin/ssh /usr/bin/tmux; systemctl list-unit-files | grep ssh"))
}

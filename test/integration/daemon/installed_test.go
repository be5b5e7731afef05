package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/test/bed"
)

// installed are scripts that print what an installation has made, but for times, logs, and the copies that apt and
// debconf keep for themselves. The generators are a file system of their own where nothing was installed in advance.
var installed = map[string]string{
	"files": `find / /usr/lib/systemd/system-generators -xdev \( -path /var/log -o -path /var/cache -o -path '/var/tmp/*' \) ` +
		`-prune -o -printf '%p %M %U:%G %l\n' | sort -u; find /run -path '*codex*' -printf '%p %M %U:%G %l\n' | sort`,
	"contents": `find / /usr/lib/systemd/system-generators -xdev \( -path /var/log -o -path /var/cache -o -path '/var/tmp/*' ` +
		`-o -path /etc/machine-id -o -path '/etc/shadow*' -o -path /etc/codex-proxy/first-key \) ` +
		`-prune -o -type f -print0 | sort -zu | xargs -0 sha256sum`,
	"users":    "getent passwd; getent group",
	"packages": "dpkg --list; dpkg --audit",
	"enabled":  "systemctl list-unit-files",
	"units": `systemctl daemon-reload; systemctl list-units --all --plain --no-legend 'codex*'; ` +
		`systemctl show --value -p Wants multi-user.target | tr ' ' '\n' | sort; systemctl list-units --failed --no-legend`,
	"key": "stat -c %s:%a /etc/codex-proxy/first-key",
}

// A bed of the other tests is as after the installation in a booted machine.
func TestInstalledInAdvance(t *testing.T) { bed.BothSuites(t, testInstalledInAdvance) }

func testInstalledInAdvance(t *testing.T, suite string) {
	booted, advance := bed.Empty(t, suite), bed.New(t, suite, bed.RealWorker, "")
	booted.Install(bed.RealWorker, "")
	for what, script := range installed {
		assert.Equal(t, booted.MustRun(t, "sh", "-c", script), advance.MustRun(t, "sh", "-c", script), what)
	}
}

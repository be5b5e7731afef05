package daemon

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The shipped units have no other setting that systemd does not know, and expose no
// more than they must.
func TestUnits(t *testing.T) { bed.BothSuites(t, testUnits) }

func testUnits(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	stdout, stderr, err := b.Run(t.Context(), "systemd-analyze", "verify", "--man=no",
		"codex.target", "codex-proxy.socket", "codex-proxy.service", "codex-proxy-fetch.socket",
		"codex-proxy-fetch.service", "codex-proxy-logins.socket", "codex-proxy-traces.socket", "codex-proxy-traces.service",
		"codex-console.socket", "codex-console.service", "codex-console-orders.socket", "codex-console-orders.service", "codex-console-push.socket",
		"codex-proxy-database.socket", "codex-proxy-database.service",
		"codex-copies.socket", "codex-copies.service", "codex-canary@0.171.0-0123456789ab.service",
		"codex-worker@default.socket", "codex-worker@default.service", "codex-dependency@default.service", "codex-user@root.service", "codex-user@root.socket")
	assert.NoError(t, err)
	output := stdout + stderr
	if suite == bed.Oldest {
		output = bed.UnknownBefore254.ReplaceAllString(output, "")
	}
	assert.Empty(t, output)

	rows := bed.SecurityRows(t, `^codex-(proxy|console|copies|canary|worker|dependency|remote|user).*\.service$`)
	require.Len(t, rows, 13)
	for _, row := range rows {
		unit, most := strings.Replace(row[0], "@", "@default", 1), bed.Seconds(t, strings.TrimSpace(row[1]))
		out := b.MustRun(t, "systemd-analyze", "security", "--no-pager", unit)
		m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
		require.NotNil(t, m, out)
		t.Logf("%s: %s", unit, m[1])
		assert.LessOrEqual(t, bed.Seconds(t, m[1]), most, out)
	}
}

// The proxy may restart its workers and no other unit; other users may restart none.
func TestPolkit(t *testing.T) { bed.BothSuites(t, testPolkit) }

func testPolkit(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	as := func(user string, args ...string) error {
		_, _, err := b.Run(t.Context(), append([]string{"setpriv", "--reuid=" + user, "--clear-groups",
			"--regid=nogroup", "busctl", "--quiet", "call",
			"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"}, args...)...)
		return err
	}
	assert.NoError(t, as("codex-proxy", "ResetFailedUnit", "s", bed.WorkerUnit))
	assert.NoError(t, as("codex-proxy", "ResetFailedUnit", "s", bed.ProxyUnit))
	assert.Error(t, as("codex-proxy", "RestartUnit", "ss", bed.WorkerUnit, "replace"))
	assert.Error(t, as("codex-proxy", "RestartUnit", "ss", "dbus.service", "replace"))
	assert.Error(t, as("codex-proxy", "RestartUnit", "ss", bed.ProxyUnit, "replace"))
	assert.Error(t, as("codex-proxy", "StartTransientUnit", "ssa(sv)a(sa(sv))", "codex-worker@x.service", "replace",
		"1", "ExecStart", "a(sasb)", "1", "/bin/true", "1", "/bin/true", "false", "0"))
	assert.Error(t, as("codex-worker", "RestartUnit", "ss", bed.WorkerUnit, "replace"))
	assert.Error(t, as("nobody", "ResetFailedUnit", "s", bed.WorkerUnit))
	assert.Error(t, as("codex-worker", "ResetFailedUnit", "s", bed.ProxyUnit))
}

// Only the users that need secrets and sockets can reach them.
func TestPermissions(t *testing.T) { bed.BothSuites(t, testPermissions) }

func testPermissions(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	modes := ""
	for _, path := range []string{"/run/codex-proxy/default.sock", "/etc/codex-proxy/api-keys",
		"/etc/codex-proxy/config.toml", "/var/lib/private", "/var/lib/private/codex-worker",
		"/var/lib/codex-worker/default", "/var/lib/codex-worker/default/config.toml", "/run/codex-worker/default",
		"/run/codex-proxy/control", "/run/codex-proxy/control/socket", "/var/lib/codex-proxy",
		"/var/lib/codex-proxy/usage.db"} {
		modes += path + " " + bed.Owner(b, path) + "\n"
	}
	user := bed.UID(b, bed.WorkerUnit)
	assert.Equal(t, strings.ReplaceAll(strings.TrimSpace(`
/run/codex-proxy/default.sock 660 root:codex-proxy
/etc/codex-proxy/api-keys 600 root:root
/etc/codex-proxy/config.toml 640 root:codex-proxy
/var/lib/private 700 root:root
/var/lib/private/codex-worker 755 root:root
/var/lib/codex-worker/default 700 USER:USER
/var/lib/codex-worker/default/config.toml 600 USER:USER
/run/codex-worker/default 700 USER:USER
/run/codex-proxy/control 700 codex-proxy:codex-proxy
/run/codex-proxy/control/socket 600 codex-proxy:codex-proxy
/var/lib/codex-proxy 700 codex-proxy:codex-proxy
/var/lib/codex-proxy/usage.db 600 codex-proxy:codex-proxy`), "USER", user), bed.Trim(modes))
}

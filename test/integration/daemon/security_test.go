package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// The files of the installed and running service have the owners in docs/security.md.
func TestFilesAreWhose(t *testing.T) { bed.BothSuites(t, testFilesAreWhose) }

func testFilesAreWhose(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	files := 0
	for _, row := range bed.SecurityRows(t, `^/(usr|etc|var|run)/`) {
		if !strings.Contains(row[1], ":") || strings.Contains(row[1], " ") { // sockets have a table of their own
			continue
		}
		files++
		owner := strings.ReplaceAll(row[1], "cw-default", bed.UID(b, bed.WorkerUnit))
		assert.Equal(t, row[2]+" "+owner, bed.Owner(b, row[0]), row[0])
	}
	assert.Equal(t, 16, files)
	for socket, want := range map[string]string{
		"/run/codex-proxy/default.sock":   "root:codex-proxy 660\n",
		"/run/codex-proxy/fetch.socket":   "root:codex-proxy 660\n",
		"/run/codex-proxy/traces.socket":  "root:codex-proxy 660\n",
		"/run/codex-proxy/copies.socket":  "root:codex-proxy 660\n",
		"/run/codex-proxy/control/socket": "codex-proxy:codex-proxy 600\n",
		"/run/codex-logins/socket":        "root:codex-remote 660\n",
	} {
		assert.Equal(t, want, b.MustRun(t, "stat", "-c", "%U:%G %a", socket), socket)
	}
}

// The service's user may reset the failures of units in systemd, and do nothing else to
// them, in every mode.
func TestWhatTheServiceMayAskOfSystemd(t *testing.T) {
	bed.BothSuites(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		b.Start()
		ask := func(method string, args ...string) error {
			call := []string{"runuser", "-u", "codex-proxy", "--", "busctl", "call",
				"--allow-interactive-authorization=no",
				"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", method}
			_, stderr, err := b.Run(t.Context(), append(call, args...)...)
			if err != nil {
				assert.Regexp(t, "Access denied|Permission denied|authentication required", stderr, "%s %s", method,
					args)
			}
			return err
		}
		d := bed.NewDependency(b, "db", "command = [\"/bin/sleep\", \"infinity\"]\n[probe]\ncheck = \"exec:true\"\n")
		d.Start()
		b.MustRun(t, "systemctl", "enable", d.Unit)
		_, _, err := b.Run(t.Context(), "systemctl", "start", "codex-dependency@A_b.service") // systemd loads it
		require.Error(t, err, "it has no file")
		assert.Error(t, ask("ResetFailedUnit", "s", "codex-dependency@A_b.service"), "no dependency has that name")
		r := bed.NewRemote(b, "build", "", "")
		b.MustRun(t, "systemctl", "enable", r.Socket)
		for _, unit := range []string{bed.WorkerUnit, bed.ProxyUnit, d.Unit, r.Unit} {
			assert.NoError(t, ask("ResetFailedUnit", "s", unit))
			for _, mode := range []string{"replace", "flush", "replace-irreversibly", "ignore-dependencies"} {
				for _, method := range []string{"StartUnit", "StopUnit", "RestartUnit", "ReloadUnit"} {
					assert.Error(t, ask(method, "ss", unit, mode), "%s %s %s", method, unit, mode)
				}
			}
			assert.Error(t, ask("KillUnit", "ssi", unit, "all", "9"))
			assert.Error(t, ask("SetUnitProperties", "sba(sv)", unit, "true", "1", "Description", "s", "x"))
		}
		assert.Error(t, ask("StartTransientUnit", "ssa(sv)a(sa(sv))", "codex-worker@other.service", "flush", "0", "0"))
		assert.Error(t, ask("ResetFailedUnit", "s", "dbus.service"))
		assert.Error(t, ask("ResetFailedUnit", "s", r.Socket))
		bed.DoctorFindsNothing(b)
	})
}

package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/probes"
)

// These settings are no faults.
func TestWhatIsWellToo(t *testing.T) {
	for name, c := range map[string]struct {
		changed func(b *bed)
		want    want
	}{
		"standby": {func(b *bed) {
			b.units[defaultUnit].ActiveState = "inactive"
			b.report.Workers = append(b.report.Workers, probes.Worker{
				Name: "default", Unit: defaultUnit, ActiveState: "inactive", Reason: probes.Standby,
			})
		}, want{"ok service", "; 1 on standby", ""}},
		"an account without limits": {func(b *bed) { b.known[0].Limits = nil },
			want{"ok accounts", "account default: available, without limits that are known", ""}},
		"a standby is not read": {func(b *bed) {
			b.known[0].At = b.clock.Now.Add(-time.Hour)
			b.report.Workers[0].Reason = probes.Standby
		}, want{"ok accounts", "account default: available, 58 % left", ""}},
		"debian 12": {func(b *bed) { b.version = "252.39" }, want{"ok systemd", "the units themselves wait", ""}},
		"demo": {func(b *bed) {
			b.write(workerFile("default"), "mode = \"demo\"\n")
			b.codexErr = errors.New("none")
		}, want{"ok codex", "the demo needs none", ""}},
		"plain": {func(b *bed) {
			b.write(workerFile("default"), "mode = \"plain\"\n")
			b.codex.sandboxErr = errors.New("none")
		}, want{"ok sandbox", "runs no commands", ""}},
		"provider": {func(b *bed) {
			b.write(workerFile("default"), "mode = \"plain\"\nmodel = \"m\"\n[provider]\nname = \"x\"\n"+
				"base_url = \"http://x/v1\"\n")
			b.logIn("default", "{}")
		}, want{"ok login", "not needed", ""}},
		"keys": {func(b *bed) {
			b.write(keyFile, "ci "+strings.Repeat("ab", 32)+"\n")
			b.units[socketUnit].Listen = []string{"0.0.0.0:8787"}
			b.gets = map[string]get{"http://localhost:8787/livez": {status: 503, body: &b.report},
				"http://localhost:8787/v1/models": {status: 401}}
		}, want{"ok ports", "asks for an API key", ""}},
		"unix socket": {func(b *bed) { b.units[socketUnit].Listen = []string{"/run/http.sock"} },
			want{"ok ports", "/run/http.sock", ""}},
		"named keys": {func(b *bed) { b.nameKeys(proxyUser, 0o755, 0o640) }, want{"ok permissions", "", ""}},
		"other control": {func(b *bed) { b.write(configFile, "control_socket = \"/run/new/socket\"\n") },
			want{"ok sockets", "", ""}},
		"never started": {func(b *bed) {
			b.write(workerFile("default"), "mode = \"demo\"\n")
			b.remove(home("default"))
		}, want{"ok permissions", "", ""}},
		"open config": {func(b *bed) { b.chmod(configFile, 0o644) }, want{"ok permissions", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			c.changed(b)
			r := Examine(t.Context(), b.host)
			assertFound(t, r, c.want)
			assert.True(t, r.OK, "%+v", r)
		})
	}
}

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/here"
	"codex-proxy/units"
)

const (
	aliceUnit   = "codex-user@alice.service"
	aliceSocket = "codex-user@alice.socket"
)

// alice has her own codex in a unit, which is well and asleep.
func (b *bed) alice() {
	uid := os.Getuid()
	require.NoError(b.t, os.MkdirAll(b.path("/etc/codex"), 0o755))
	b.write(paths.CodexConfig, here.NoDaemon)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(here.ControlPath(b.path("/home/alice"))), 0o755))
	require.NoError(b.t, os.Symlink(paths.HereSocket("alice"), here.ControlPath(b.path("/home/alice"))))
	require.NoError(b.t, here.Records(b.path(paths.HereRecords)).Put(here.Record{User: "alice", Home: "/home/alice", UID: uid}))
	b.units[aliceUnit] = &units.Description{State: units.State{Unit: aliceUnit, LoadState: "loaded", ActiveState: "inactive",
		SubState: "dead"}}
	b.units[aliceSocket] = &units.Description{State: units.State{Unit: aliceSocket, LoadState: "loaded", ActiveState: "active",
		SubState: "listening"}, FileState: "enabled"}
}

func (b *bed) ofHere() (found []Finding) {
	for _, f := range Examine(b.t.Context(), b.host).Findings {
		if f.Check == "here" {
			found = append(found, f)
		}
	}
	return found
}

func TestOwnCodexesThatAreWell(t *testing.T) {
	b := newBed(t)
	assert.Equal(t, []Finding{{Check: "here", Level: OK, Detail: "no user has a unit for the own codex"}}, b.ofHere())
	b.alice()
	well := func(detail string) []Finding {
		return []Finding{{Check: "here", Level: OK, Subject: "codex of alice", Detail: detail}}
	}
	assert.Equal(t, well("asleep, the next codex starts it"), b.ofHere())
	b.units[aliceUnit].ActiveState = "active"
	b.here = remotes.Status{Codex: fmt.Sprintf("codex 0.%d.0, no turn was cut", versions.Tested)}
	assert.Equal(t, well("runs in its unit"), b.ofHere())
}

func TestOwnCodexesThatAreBroken(t *testing.T) {
	const subject = "codex of alice"
	run := func(b *bed, codex string, clients ...remotes.Client) {
		b.units[aliceUnit].ActiveState = "active"
		b.here = remotes.Status{Codex: "codex " + codex + ", no turn was cut", Attached: clients}
	}
	for name, tc := range map[string]struct {
		change func(b *bed)
		want   Finding
	}{
		"link gone": {func(b *bed) { require.NoError(b.t, os.Remove(here.ControlPath(b.path("/home/alice")))) },
			fail(subject, "is no link to the unit's, but nothing", "codex-proxy here enable alice")},
		"another link": {func(b *bed) {
			require.NoError(b.t, os.Remove(here.ControlPath(b.path("/home/alice"))))
			require.NoError(b.t, os.Symlink("/tmp/x", here.ControlPath(b.path("/home/alice"))))
		}, fail(subject, "a link to /tmp/x", "codex-proxy here enable alice")},
		"socket closed": {func(b *bed) { b.units[aliceSocket].ActiveState = "inactive" },
			fail(subject, "its socket does not listen", "systemctl start "+aliceSocket)},
		"not at boot": {func(b *bed) { b.units[aliceSocket].FileState = "disabled" },
			warn(subject, "does not at boot", "systemctl enable "+aliceSocket)},
		"failed": {func(b *bed) { failed(b.units[aliceUnit], "Not started: here.toml:1: x") },
			fail(subject, "has failed (exited with status 78): here.toml:1: x", "systemctl reset-failed "+aliceUnit)},
		"own daemon": {func(b *bed) {
			dir := "/proc/" + strconv.Itoa(1<<30)
			require.NoError(b.t, os.MkdirAll(b.path(dir), 0o755))
			b.write(dir+"/cmdline", "/x/bin/codex\x00app-server\x00--listen\x00unix://\x00--managed-daemon\x00")
		}, fail(subject, "codex's own daemon runs beside the unit (1 processes)", "codex-proxy here enable alice")},
		"newer server": {func(b *bed) { run(b, fmt.Sprintf("0.%d.0", versions.Tested+1)) },
			warn(subject, "the newest that this release was tested with", "install a newer codex-proxy")},
		"older terminal": {func(b *bed) {
			run(b, fmt.Sprintf("0.%d.0", versions.Tested), remotes.Client{Program: "codex-tui 0.160.0"})
		}, warn(subject, "a terminal with codex 0.160.0 is attached", "start codex again")},
		"accounts": {func(b *bed) {
			require.NoError(b.t, here.Records(b.path(paths.HereRecords)).Put(here.Record{User: "alice", Home: "/home/alice",
				UID: os.Getuid(), Loan: &here.Loan{On: true}}))
		}, fail(subject, "may not ask for the logins", "codex-proxy here accounts alice --lend")},
		"no setting": {func(b *bed) { b.write(paths.CodexConfig, "[features]\n") },
			warn(paths.CodexConfig, "starts its own daemon", "add daemon_auto_start = false under [features]")},
	} {
		b := newBed(t)
		b.alice()
		tc.change(b)
		found := b.ofHere()
		require.NotEmpty(t, found, name)
		assert.Equal(t, tc.want.Level, found[0].Level, name)
		assert.Equal(t, tc.want.Subject, found[0].Subject, name)
		assert.Contains(t, found[0].Detail, tc.want.Detail, name)
		assert.Contains(t, found[0].Remedy, tc.want.Remedy, name)
	}
}

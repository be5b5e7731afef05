package accountscli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
	"codex-proxy/workers/sharing"
)

// After the removal of a worker that served accounts, the one that serves in its place starts, if workers are to run.
func TestAnotherWorkerServesInPlaceOfARemovedOne(t *testing.T) {
	systemd := unitstest.Start(t).Systemd
	var printed bytes.Buffer
	o := Accounts{Systemd: units.NewManager(), Stderr: &printed}
	defer o.Systemd.Close()
	generated := t.TempDir()
	for name, host := range map[string]string{"c": "b", "d": "x"} {
		_, err := sharing.Mark(generated, name, host)
		require.NoError(t, err)
	}
	target := systemd.Unit(paths.TargetUnit)
	systemd.Unit(units.Worker("b")).SetSilently(unitstest.Properties{"ActiveState": "inactive"})
	target.SetSilently(unitstest.Properties{"ActiveState": "inactive"})
	o.startServed(t.Context(), generated, []string{"b", "c", "d"})
	assert.Zero(t, systemd.Calls("StartUnit"))
	assert.Empty(t, printed.String())

	target.SetSilently(unitstest.Properties{"ActiveState": "active"})
	o.startServed(t.Context(), generated, []string{"b", "c", "d"})
	assert.Equal(t, 1, systemd.Calls("StartUnit"))
	assert.Equal(t, "Starting codex-worker@b.service, which serves in its place.\n"+
		"codex-worker@x.service is to serve the account d now: systemctl restart codex-worker@x.service\n", printed.String())
}

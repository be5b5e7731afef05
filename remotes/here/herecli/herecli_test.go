package herecli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/remotes"
	"codex-proxy/remotes/here"
	"codex-proxy/units"
	"codex-proxy/units/unitstest"
)

// What a user's programs say reaches the terminal of root without its controls.
func TestStatusIsPrintable(t *testing.T) {
	const bad = "x\x1b]0;y\a"
	var out bytes.Buffer
	h := &Here{Stdout: &out, Stderr: io.Discard}
	states := []State{
		{User: "alice", Instead: "a link to " + bad, Error: bad, Words: bad, State: "failed", Status: remotes.Status{
			Attached: []remotes.Client{{Program: bad}}, Turns: []remotes.Turn{{Thread: bad}}}},
		{User: "bob", Status: remotes.Status{Codex: bad}},
	}
	require.NoError(t, h.write(states))
	assert.NotContains(t, out.String(), "\x1b")
	assert.NotContains(t, out.String(), "\a")
	assert.Contains(t, out.String(), "attached: x]0;y since")
}

// A fault of an enable that is called again takes nothing away; the first one leaves nothing, also after Ctrl-C.
func TestUndo(t *testing.T) {
	const name = "codex-test-alice"
	systemd := unitstest.Start(t).Systemd
	systemd.Unit(units.Here(name))
	systemd.Unit(units.HereSocket(name))
	h := &Here{Systemd: units.NewManager(), Records: here.Records(filepath.Join(t.TempDir(), "records")), Stderr: io.Discard,
		Config: filepath.Join(t.TempDir(), "config.toml")}
	defer h.Systemd.Close()
	r := here.Record{User: name, Home: t.TempDir()}
	require.NoError(t, h.Records.Put(r))
	fault := errors.New("codex hangs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, fault, h.undo(ctx, r, name, fault))
	_, err := h.Records.Get(name)
	require.NoError(t, err, "the record stays")
	assert.Zero(t, systemd.Calls("StopUnit"))
	require.ErrorIs(t, h.undo(ctx, here.Record{}, name, fault), fault)
	_, err = h.Records.Get(name)
	require.Error(t, err, "the record is gone")
}

// An image without a systemd gets everything back, too.
func TestDisableWithoutSystemd(t *testing.T) {
	if running() {
		t.Skip("systemd runs here")
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	h := &Here{Systemd: units.NewManager(), Records: here.Records(filepath.Join(t.TempDir(), "records")), Stderr: io.Discard,
		Config: filepath.Join(t.TempDir(), "config.toml")}
	defer h.Systemd.Close()
	const name = "codex-test-alice"
	require.NoError(t, h.Records.Put(here.Record{User: name, Home: t.TempDir()}))
	_ = h.Disable(t.Context(), name) // the copies of codex are those of this machine
	_, err := h.Records.Get(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

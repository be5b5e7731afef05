package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/upstream"
	"codex-proxy/units"
)

const (
	brokerUnit = "codex-broker@default.service"
	brokered   = "mode = \"plain\"\nnetwork = \"model\"\nmodel = \"m\"\n[provider]\nname = \"local\"\nbase_url = \"https://model.test/v1\"\n"
)

// brokered gives the worker a broker that is well.
func (b *bed) brokered() {
	b.write(workerFile("default"), brokered)
	dropIn := b.path(generated + "/" + brokerUnit + ".d/zz-broker.conf")
	require.NoError(b.t, os.MkdirAll(filepath.Dir(dropIn), 0o755))
	require.NoError(b.t, os.WriteFile(dropIn, nil, 0o600))
	b.units[brokerUnit] = &units.Description{State: units.State{Unit: brokerUnit, LoadState: "loaded", ActiveState: "active",
		SubState: "running", StatusText: "Ready"}}
	b.host.Broker = func(_ context.Context, socket string) (upstream.Reason, error) {
		assert.Equal(b.t, "/run/codex-broker/default.sock", socket)
		return b.reason, b.reasonErr
	}
}

func (b *bed) ofBrokers() (found []Finding) {
	for _, f := range Examine(b.t.Context(), b.host).Findings {
		if f.Check == "brokers" {
			found = append(found, f)
		}
	}
	return found
}

func TestBrokersThatAreWell(t *testing.T) {
	b := newBed(t)
	assert.Equal(t, []Finding{{Check: "brokers", Level: OK, Detail: "none is configured"}}, b.ofBrokers())
	b.brokered()
	well := func(detail string) []Finding {
		return []Finding{{Check: "brokers", Level: OK, Subject: "broker default", Detail: detail}}
	}
	assert.Equal(t, well("reaches https://model.test"), b.ofBrokers())
	b.units[brokerUnit].ActiveState = "inactive"
	b.units[defaultUnit].ActiveState = "inactive"
	assert.Equal(t, well("stopped, as its worker is"), b.ofBrokers())
}

func TestBrokersThatAreBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		change         func(b *bed)
		detail, remedy string
	}{
		"not made": {func(b *bed) { require.NoError(b.t, os.RemoveAll(b.path(generated+"/"+brokerUnit+".d"))) },
			"its unit is not made yet", "systemctl daemon-reload; systemctl restart " + defaultUnit},
		"down": {func(b *bed) { b.units[brokerUnit].ActiveState = "failed" }, "does not run", "journalctl -u " + brokerUnit},
		"fault": {func(b *bed) { b.units[brokerUnit].StatusText = "Refuses all: the key is empty" }, "the key is empty",
			"mend /etc/codex-proxy/workers/default.toml"},
		"deaf":            {func(b *bed) { b.reasonErr = errors.New("no such socket") }, "does not answer: no such socket", "journalctl -u"},
		"no root":         {func(b *bed) { b.host.IsRoot = false }, "only root may ask it", "sudo codex-proxy doctor"},
		"refused":         {func(b *bed) { b.reason = upstream.Refused }, "cannot reach https://model.test (refused): it", "start the endpoint"},
		"unresolvable":    {func(b *bed) { b.reason = upstream.Unresolvable }, "(unresolvable)", "getent hosts model.test"},
		"black hole":      {func(b *bed) { b.reason = upstream.NoAnswer }, "(no-answer)", "look for a firewall"},
		"certificate":     {func(b *bed) { b.reason = upstream.Certificate }, "(certificate)", "set provider.ca_file"},
		"TLS":             {func(b *bed) { b.reason = upstream.TLS }, "(tls)", "correct the scheme and the port"},
		"proxy":           {func(b *bed) { b.reason = upstream.ViaProxy }, "(proxy)", "correct HTTPS_PROXY"},
		"no answer":       {func(b *bed) { b.reason = upstream.Cut }, "(cut)", "see the journal of the endpoint"},
		"systemd is mute": {func(b *bed) { b.busErr = errors.New("no bus") }, "systemd does not answer", "mend the findings of bus"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.brokered()
			tc.change(b)
			found := b.ofBrokers()
			require.Len(t, found, 1)
			assert.NotEqual(t, OK, found[0].Level)
			assert.Contains(t, found[0].Detail, tc.detail)
			assert.Contains(t, found[0].Remedy, tc.remedy)
		})
	}
}

package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/upstream"
	"codex-proxy/units"
	"codex-proxy/workers/sharing"
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

// Accounts that share a codex need units that are made so, and a broker that has started since.
func TestBrokersOfSeveralAccounts(t *testing.T) {
	b := newBed(t)
	b.brokered()
	const file = "mode = \"plain\"\nnetwork = \"model\"\n"
	b.write(workerFile("default"), file)
	b.write(workerFile("second"), file)
	b.write("/etc/codex-proxy/config.toml", "[accounts]\nprocesses = 1\n")
	findings := func(subject string) (found []Finding) {
		for _, f := range b.ofBrokers() {
			if f.Subject == subject {
				found = append(found, f)
			}
		}
		return found
	}
	require.Len(t, findings("processes"), 1)
	assert.Equal(t, Fail, findings("processes")[0].Level)
	assert.Contains(t, findings("processes")[0].Remedy, "systemctl daemon-reload")

	_, err := sharing.Mark(b.path(generated), "second", "default")
	require.NoError(t, err)
	assert.Empty(t, findings("processes"))
	assert.Empty(t, findings("broker second"))
	assert.Contains(t, findings("broker default")[0].Detail, "its state cannot be read")
	dir := b.path("/run/codex-broker-run/default")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, (&brokerstate.State{}).Write(dir))
	assert.Contains(t, findings("broker default")[0].Detail, "does not serve the account second yet")
	assert.Equal(t, "systemctl restart "+defaultUnit, findings("broker default")[0].Remedy)
	require.NoError(t, (&brokerstate.State{Accounts: []string{"default", "second"}}).Write(dir))
	assert.Equal(t, []Finding{{Check: "brokers", Level: OK, Subject: "broker default",
		Detail: "reaches https://chatgpt.com, for second, too"}}, b.ofBrokers())
	second := "codex-worker@second.service"
	b.units[second] = &units.Description{State: units.State{Unit: second, LoadState: "loaded", ActiveState: "active"}}
	assert.Equal(t, "systemctl stop "+second, findings("account second")[0].Remedy)
}

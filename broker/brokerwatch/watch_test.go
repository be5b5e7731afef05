package brokerwatch

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/broker/brokerstate"
	"codex-proxy/broker/modelproxy"
	"codex-proxy/broker/upstream"
	"codex-proxy/probes"
	"codex-proxy/units"
)

var update = flag.Bool("update", false, "write the table of metrics anew")

// rig is a machine with the workers a and b, of which a has a broker.
type rig struct {
	*Watch
	generated, states string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{generated: t.TempDir(), states: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(r.states, "a"), 0o755))
	r.generate(t, "a")
	r.Watch = New(Settings{Workers: []string{"b", "a"}, Generated: r.generated, States: r.states, OnChange: func() {},
		Logger: slog.New(slog.DiscardHandler)})
	return r
}

func (r *rig) dropIn(name string) string {
	return filepath.Join(r.generated, units.Broker(name)+".d", "zz-broker.conf")
}

func (r *rig) generate(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.dropIn(name)), 0o755))
	require.NoError(t, os.WriteFile(r.dropIn(name), nil, 0o600))
}

func (r *rig) is(name, active string) {
	r.UnitChanged(units.State{Unit: units.Broker(name), ActiveState: active, SubState: "x"})
}

// some is a state with a failure.
func some() *brokerstate.State {
	s := &brokerstate.State{Endpoint: "https://model.test", Requests: map[string]uint64{"turn": 3, "compaction": 1, "strange": 9},
		Streams: 2, Tokens: map[string]brokerstate.Tokens{"compaction": {Input: 5}}, Line: brokerstate.Line{Connections: 1, Sent: 10, Received: 20, Failures: map[string]uint64{"tls": 1},
			Failure: &brokerstate.Failure{Reason: "tls", At: time.Unix(1, 0).UTC()}}}
	s.Line.Connect.Add(20 * time.Millisecond)
	return s
}

// A worker has a broker while systemd runs one, whatever its file says.
func TestBrokered(t *testing.T) {
	r := newRig(t)
	assert.Equal(t, []string{"codex-broker@a.service"}, r.Units())
	assert.False(t, r.Brokered("a"), "not reported")
	for state, want := range map[string]bool{"active": true, "activating": true, "failed": true, "deactivating": true, "inactive": false} {
		r.is("a", state)
		assert.Equal(t, want, r.Brokered("a"), state)
	}
	r.is("b", "active")
	assert.False(t, r.Brokered("b"), "it has no broker")
	r.is("a", "active")
	require.NoError(t, os.Remove(r.dropIn("a")))
	r.generate(t, "b")
	assert.Equal(t, []string{"codex-broker@b.service", "codex-broker@a.service"}, r.Units(), "a still runs")
	r.is("a", "inactive")
	assert.Equal(t, []string{"codex-broker@b.service"}, r.Units())
}

func TestReport(t *testing.T) {
	r := newRig(t)
	r.Units()
	assert.Empty(t, r.Report())
	r.is("a", "active")
	want := probes.Broker{Name: "a", Unit: "codex-broker@a.service", ActiveState: "active", SubState: "x"}
	assert.Equal(t, []probes.Broker{want}, r.Report())
	require.NoError(t, some().Write(filepath.Join(r.states, "a")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ctx))
	want.Endpoint, want.Connections, want.Streams, want.Requests = "https://model.test", 1, 2, 13
	want.Failure = &probes.BrokerFailure{Reason: "tls", At: time.Unix(1, 0).UTC()}
	assert.Equal(t, []probes.Broker{want}, r.Report())
	assert.Equal(t, "broker a: cannot reach https://model.test (tls); codex-proxy doctor names the remedy", want.Sentence())
	require.NoError(t, os.WriteFile(filepath.Join(r.states, "a", "state.json"), []byte("["), 0o600))
	assert.True(t, r.read(), "the failure is not known any more")
	assert.Nil(t, r.Report()[0].Failure)
}

// Each hidden use is reported once, also if a state could not be read, or another process has begun.
func TestHiddenUses(t *testing.T) {
	r := newRig(t)
	var reported []string
	r.settings.OnHidden = func(worker, account string, threads []string, used brokerstate.Tokens) {
		reported = append(reported, fmt.Sprintf("%s %s %v %d", worker, account, threads, used.Input))
	}
	r.Units()
	s, dir := some(), filepath.Join(r.states, "a")
	hide := func(input uint64, account string) {
		s.Hide(brokerstate.Hidden{Account: account, Threads: []string{"t"}, Tokens: brokerstate.Tokens{Input: input}})
		require.NoError(t, s.Write(dir))
		r.read()
	}
	hide(1, "")
	hide(2, "b")
	require.NoError(t, os.Remove(filepath.Join(dir, "state.json")))
	r.read()
	hide(3, "")
	r.read()
	assert.Equal(t, []string{"a a [t] 1", "a b [t] 2", "a a [t] 3"}, reported)
	s.Began, s.Hidden = time.Unix(2, 0), nil
	hide(4, "")
	assert.Len(t, reported, 4)
	for n := range uint64(2 * brokerstate.MostHidden) {
		s.Hide(brokerstate.Hidden{Tokens: brokerstate.Tokens{Input: n}})
	}
	require.NoError(t, s.Write(dir))
	r.read()
	assert.Len(t, reported, 4+brokerstate.MostHidden)
}

func TestMetrics(t *testing.T) {
	r := newRig(t)
	r.Units()
	require.NoError(t, some().Write(filepath.Join(r.states, "a")))
	c := NewCollector(r.Watch)
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP codex_model_reachable 0 if the last request of the broker found the model endpoint unreachable.
# TYPE codex_model_reachable gauge
codex_model_reachable{worker="a"} 0
# HELP codex_model_sent_bytes_total Bytes that the broker has sent over its connections.
# TYPE codex_model_sent_bytes_total counter
codex_model_sent_bytes_total{worker="a"} 10
`), "codex_model_reachable", "codex_model_sent_bytes_total"))
	assert.Equal(t, 3*len(modelproxy.Kinds), testutil.CollectAndCount(c, "codex_model_tokens_total"))
	assert.Equal(t, len(modelproxy.Kinds), testutil.CollectAndCount(c, "codex_model_requests_total"))
	assert.Equal(t, len(upstream.Reasons), testutil.CollectAndCount(c, "codex_model_unreachable_total"))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// docs/metrics.md has a table of them, which a daemon without brokers does not have.
func TestMetricsInTheDocs(t *testing.T) {
	r := newRig(t)
	r.Units()
	require.NoError(t, some().Write(filepath.Join(r.states, "a")))
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(r.Watch))
	families, err := registry.Gather()
	require.NoError(t, err)
	quoted := func(all []string) string { return "`" + strings.Join(all, "`, `") + "`" }
	var reasons []string
	for _, reason := range upstream.Reasons {
		reasons = append(reasons, string(reason))
	}
	values := map[string]string{"worker": "the worker's name", "kind": quoted(modelproxy.Kinds), "reason": quoted(reasons),
		"type": quoted([]string{"input", "cached", "output"})}
	var table strings.Builder
	table.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`: "+values[l.GetName()])
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(labels, "; "), f.GetHelp())
	}
	const path = "../../docs/metrics.md"
	doc, err := os.ReadFile(path)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?s)(./broker/brokerwatch -run TestMetricsInTheDocs -update -->\n).*?(<!-- end of brokers -->)`)
	require.Regexp(t, place, string(doc))
	want := place.ReplaceAllString(string(doc), "${1}"+strings.ReplaceAll(table.String(), "$", "$$")+"${2}")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(doc), "write it anew: go test ./broker/brokerwatch -run TestMetricsInTheDocs -update")
}

// The limits of an account are reported once, soon after the end of a turn, and not those of before this process.
func TestLimits(t *testing.T) {
	r := newRig(t)
	reported := make(chan string, 9)
	r.settings.OnLimits = func(worker, account string, limits json.RawMessage) {
		reported <- worker + " " + account + " " + string(limits)
	}
	limits := func(at time.Time, text string) brokerstate.Limits {
		return brokerstate.Limits{At: at, Limits: json.RawMessage(text)}
	}
	now := time.Now().Add(time.Second)
	state := &brokerstate.State{Accounts: []string{"a", "b"}, Limits: map[string]brokerstate.Limits{
		"a": limits(r.began.Add(-time.Second), "0"), "b": limits(now, "1")}}
	dir := filepath.Join(r.states, "a")
	require.NoError(t, state.Write(dir))
	r.Units()
	r.is("a", "active")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	assert.Equal(t, "a b 1", <-reported)
	state.Limits["a"] = limits(now, "2")
	require.NoError(t, state.Write(dir))
	r.TurnEnded()
	r.TurnEnded()
	assert.Equal(t, "a a 2", <-reported)
	cancel()
	require.NoError(t, <-ended)
	assert.Empty(t, reported)
}

package daemon

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"codex-proxy/test/bed"
)

// compactingWorker has a broker, and compacts a conversation before its first turn: codex's own instructions are longer
// than this limit, in tokens.
const compactingWorker = `network = "model"
mode = "native"
codex_path = "` + bed.CodexDir + `/bin/codex"
model = "` + bed.Model + `"
[provider]
name = "scripted"
base_url = "http://` + bed.ModelAddr + `/v1"
[codex]
model_auto_compact_token_limit = 1000
`

// In the turn of a client, codex sends a request of its own, which summarises the conversation: its tokens count for the
// key of the client, and are in the metrics and in the span of the turn.
func TestOwnUseOfCodex(t *testing.T) { bed.EitherSuite(t, testOwnUseOfCodex) }

func testOwnUseOfCodex(t *testing.T, suite string) {
	b := bed.New(t, suite, compactingWorker, toCollector)
	c := startCollector(b)
	b.MustRun(t, "systemctl", "daemon-reload") // it makes the unit of the broker
	b.Start()
	key := bed.AddKey(b, "alice")
	for _, steps := range [][]string{
		{"usage 300 0 20 0", "text a summary"},
		{"usage 100 0 7 0", "text the answer"},
	} {
		require.NoError(t, b.Models.Script(steps...))
	}
	traced(b, "compacts", key, "begin", false)
	turn := c.trace("compacts")["turn"]
	require.NotNil(t, turn)
	assert.EqualValues(t, 400, number(turn, "gen_ai.usage.input_tokens"))
	assert.EqualValues(t, 27, number(turn, "gen_ai.usage.output_tokens"))
	for _, line := range []string{
		`codex_model_requests_total{kind="turn",worker="default"} 1`,
		`codex_model_requests_total{kind="compaction",worker="default"} 1`,
		`codex_model_tokens_total{kind="compaction",type="input",worker="default"} 300`,
		`codex_model_tokens_total{kind="compaction",type="output",worker="default"} 20`,
		`codex_model_tokens_total{kind="turn",type="input",worker="default"} 100`,
	} {
		b.UntilMetric(line)
	}
	bed.UntilKeyUsed(b, "alice", 1)
	input, output := usedBy(b, "alice")
	assert.EqualValues(t, 400, input)
	assert.EqualValues(t, 27, output)
}

// usedBy are the tokens of a key.
func usedBy(b *bed.Bed, key string) (input, output int64) {
	b.T.Helper()
	var report struct {
		Usage []struct {
			Key    string
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		}
	}
	out := b.MustRun(b.T, "codex-proxy", "usage", "--json", "--by=key")
	require.NoError(b.T, json.Unmarshal([]byte(out), &report), out)
	for _, u := range report.Usage {
		if u.Key == key {
			return u.Input, u.Output
		}
	}
	return 0, 0
}

// number is an attribute of a span.
func number(s *otlp.Span, name string) int64 {
	for _, a := range s.Attributes {
		if a.Key == name {
			return a.Value.GetIntValue()
		}
	}
	return -1
}

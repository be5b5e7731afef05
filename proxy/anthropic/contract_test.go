package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/test/contract"
	"codex-proxy/test/nightly"
)

func schema(t testing.TB) *contract.Schema {
	t.Helper()
	s, err := contract.Compile()
	require.NoError(t, err)
	return s
}

// randomTurn sends a turn of random events to a builder, in any order that codex may have.
func randomTurn(random *rand.Rand, b *Builder, send func([]Event)) {
	for n := range random.IntN(12) {
		item := fmt.Sprint("item_", random.IntN(3))
		switch random.IntN(7) {
		case 0:
			send(b.Begin())
		case 1:
			send(b.Ping())
		case 2, 3:
			send(b.Text(item, randomText(random)))
		case 4:
			send(b.Thinking(item, random.IntN(3), randomText(random)))
		case 5:
			send(b.Item(json.RawMessage(fmt.Sprintf(
				`{"type":"reasoning","id":%q,"summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"gAAA%d"}`,
				item, n))))
		case 6:
			arguments := []string{`{}`, ``, `{"a":"<é>"}`, `[1]`, `{"a":`, `"x"`}[random.IntN(6)]
			send(b.Item(call(fmt.Sprint(n), []string{"get_weather", "client_mcp__files__read", "other"}[random.IntN(3)],
				arguments)))
		}
	}
}

func randomText(random *rand.Rand) string {
	return strings.Repeat([]string{"", "a", "\n", "<&>", "é", "\x00", "\xff", "\u2028", `"\`}[random.IntN(9)], random.IntN(3))
}

// The answers to random turns fit Anthropic's schemas, and a stream adds up to the whole message.
func TestRandomAnswersFitTheSchemas(t *testing.T) {
	s := schema(t)
	requests := []string{"", thinking, `"thinking":{"type":"adaptive","display":"omitted"}`,
		thinking + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`}
	for seed := range uint64(nightly.Or(400, 100)) {
		random := rand.New(rand.NewPCG(seed, 0))
		b := builder(t, requests[random.IntN(len(requests))], true)
		var stream bytes.Buffer
		var w EventWriter
		send := func(events []Event) { require.NoError(t, w.Write(&stream, events)) }
		randomTurn(random, b, send)
		stop := Stop{Reason: []string{StopEndTurn, StopMaxTokens, StopSequence}[random.IntN(3)]}
		if b.Calls() > 0 {
			stop.Reason = StopToolUse
		}
		send(b.End(stop, []*openai.Usage{usage, nil}[random.IntN(2)]))

		message, err := json.Marshal(b.Message())
		require.NoError(t, err)
		require.NoError(t, s.Check(contract.Message, message))
		require.JSONEq(t, string(message), accumulate(t, stream.String()), "seed %d", seed)
		for event := range strings.SplitSeq(strings.TrimSuffix(stream.String(), "\n\n"), "\n\n") {
			head, data, _ := strings.Cut(event, "\ndata: ")
			require.NoError(t, s.CheckMessageEvent(strings.TrimPrefix(head, "event: "), []byte(data)), "seed %d", seed)
		}
	}
}

func TestAnswersFitTheSchemas(t *testing.T) {
	s := schema(t)
	files, err := filepath.Glob("testdata/*")
	require.NoError(t, err)
	judged := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // a directory
		}
		switch filepath.Ext(name) {
		case ".json":
			_, err = s.Message(data)
		case ".sse":
			_, err = s.MessageStream(bytes.NewReader(data))
		}
		assert.NoError(t, err, name)
		judged++
	}
	assert.Equal(t, 2*len(answers), judged)
	count, err := openai.Encode(TokenCount{InputTokens: 7})
	require.NoError(t, err)
	assert.NoError(t, s.Check(contract.TokenCount, count))
	var failure bytes.Buffer
	require.NoError(t, WriteError(&failure, ErrorOf(openai.Unavailable("overloaded", "m", 0), "req_1")))
	data, ok := strings.CutPrefix(failure.String(), "event: error\ndata: ")
	require.True(t, ok)
	_, err = s.MessagesError([]byte(data), 0)
	assert.NoError(t, err)
}

// The requests of these tests are requests of Anthropic's API: what they test are no inventions.
func TestAcceptedRequestsFitTheSchema(t *testing.T) {
	s := schema(t)
	for name, value := range honouredValues {
		if name == "model" || name == "messages" || name == "safeguards" { // no reference has the last one
			continue
		}
		assert.NoError(t, s.Check(contract.MessageRequest, body(t, fmt.Sprintf("%q:%s", name, value))), name)
	}
	files, err := filepath.Glob("testdata/requests/*.json")
	require.NoError(t, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.NoError(t, s.Check(contract.MessageRequest, data), name)
	}
}

package tokens

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
)

func count(t *testing.T, turn appserver.TurnRequest) int64 {
	t.Helper()
	n, err := Turn(t.Context(), &turn)
	require.NoError(t, err)
	return n
}

func hello(tools ...appserver.Tool) appserver.TurnRequest {
	return appserver.TurnRequest{Items: []history.Item{history.TextMessage("user", "hello")}, Tools: tools}
}

func tool(name, description, properties string) appserver.Tool {
	return appserver.Tool{
		Name: name, Description: description,
		InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`),
	}
}

// OpenAI's reference counts 11 tokens for the input "Tell me a joke.".
func TestInputOfReference(t *testing.T) {
	assert.EqualValues(t, 11, count(t, appserver.TurnRequest{
		BaseInstructions: new(""), Items: []history.Item{history.TextMessage("user", "Tell me a joke.")},
	}))
}

// The numbers are those that OpenAI's API returned for the same functions of a chat completion, as gpt-tokenizer (MIT
// licence) keeps them, less the message.
func TestTools(t *testing.T) {
	none := count(t, hello())
	for _, tc := range []struct {
		tool   appserver.Tool
		tokens int64
	}{
		{tool("foo", "", ""), 23},
		{tool("foo", "Do a foo", ""), 27},
		{tool("bing_bong", "Do a bing bong", `"foo":{"type":"string"}`), 37},
		{tool("bing_bong", "Do a bing bong", `"foo":{"type":"string"},"bar":{"type":"number","description":"A number"}`),
			44},
		{tool("bing_bong", "Do a bing bong",
			`"foo":{"type":"object","properties":{"bar":{"type":"string","enum":["a","b","c"]},"baz":{"type":"boolean"}}}`),
			56},
	} {
		assert.InDelta(t, tc.tokens, count(t, hello(tc.tool))-none, 2, "%s", tc.tool.InputSchema)
	}
}

func TestTypes(t *testing.T) {
	text, err := function(appserver.Tool{Name: "find", Description: "Finds a thing.\nOr two.", InputSchema: []byte(`{
		"type": "object", "required": ["what"], "properties": {
			"what": {"type": "string", "description": "Its name"},
			"how": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
			"where": {"type": "array", "items": {"type": "object", "properties": {"at": {"$ref": "#/$defs/place"}}}},
			"kind": {"enum": ["a", 1]}, "only": {"const": true}, "any": true, "both": {"type": ["string", "null"]},
			"list": {"type": "array", "items": true}, "free": {"type": "object"}},
		"$defs": {"place": {"type": "string"}}}`)})
	require.NoError(t, err)
	assert.Equal(t, `// Finds a thing.
// Or two.
type find = (_: {
any?: any,
both?: string | null,
free?: object,
how?: number | null,
kind?: "a" | 1,
list?: any[],
only?: true,
// Its name
what: string,
where?: {
  at?: place,
  }[],
}) => any;

type place = string;

`, text)
}

func TestDeepSchema(t *testing.T) {
	schema := `{"type":"string"}`
	for range 100 {
		schema = `{"type":"object","properties":{"a":` + schema + `}}`
	}
	text, err := function(appserver.Tool{Name: "deep", InputSchema: []byte(schema)})
	require.NoError(t, err)
	assert.Less(t, len(text), 100*2*20)
}

// Each message has four tokens more than its text, a call the words that name its function, too.
func TestItems(t *testing.T) {
	instructions := "Be brief."
	items := []history.Item{
		history.TextMessage("user", "hello"),
		history.Message("user", history.Content{Type: "input_text", Text: "hello"},
			history.Content{Type: "input_text", Text: " world"}),
		history.FunctionCall("call_1", "hello", `{"a":1}`),
		history.FunctionCallOutput("call_1", "hello world"),
		history.FunctionCallParts("call_1", history.Content{Type: "input_text", Text: "hello"}),
	}
	base := appserver.TurnRequest{BaseInstructions: &instructions}
	last := count(t, base)
	assert.EqualValues(t, perTurn+4+3, last)
	for i, want := range []int64{4 + 1, 4 + 2, 4 + 4 + 1 + 5, 4 + 2, 4 + 1} {
		base.Items = items[:i+1]
		now := count(t, base)
		assert.Equal(t, want, now-last, "%s", items[i])
		last = now
	}
	base.Items = []history.Item{history.Reasoning([]string{"It is a greeting."}, strings.Repeat("A", 4000))}
	assert.EqualValues(t, perTurn+4+3+(3000-650)/4, count(t, base), "of its summary the model gets nothing")
	base.Items[0] = history.Reasoning(nil, "AAAA")
	assert.EqualValues(t, perTurn+4+3, count(t, base))
}

func TestImages(t *testing.T) {
	for _, tc := range []struct {
		width, height int
		tokens        int64
	}{{1, 1, 1}, {64, 64, 4}, {1920, 1080, 60 * 34}, {8000, 8000, 100 * 100}} {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, tc.width, tc.height))))
		url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
		n := count(t, appserver.TurnRequest{
			Items: []history.Item{history.Message("user", history.Content{Type: "input_image", ImageURL: url})},
		})
		assert.InEpsilon(t, tc.tokens, n-perTurn-4, 0.01, "%d × %d", tc.width, tc.height)
	}
}

func TestSchemaOfAnswer(t *testing.T) {
	turn := hello()
	before := count(t, turn)
	turn.OutputSchema = json.RawMessage(`{"type":"object"}`)
	assert.Greater(t, count(t, turn), before+10)
}

func TestTurnEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	turn := hello()
	_, err := Turn(ctx, &turn)
	require.ErrorIs(t, err, context.Canceled)
}

func TestMemory(t *testing.T) {
	turn := hello(tool("foo", "", ""))
	assert.EqualValues(t, perSchemaByte*len(turn.Tools[0].InputSchema)+perLine, Memory(&turn))
	turn.Items = append(turn.Items, history.TextMessage("user", strings.Repeat("a", 10_000)))
	assert.EqualValues(t, perItemByte*len(turn.Items[1]), Memory(&turn))

	turn = hello(tool("foo", strings.Repeat("\n", 1<<20), ""))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := function(turn.Tools[0])
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(Memory(&turn))+16<<10, "each line has a frame")
}

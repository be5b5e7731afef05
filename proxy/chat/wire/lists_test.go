package wire

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// A list or object that is far too long is refused without a multiple of its size in memory.
func TestLongListsAreNotDecoded(t *testing.T) {
	const size, times = 1 << 20, 18 // garbage counts; pools keep less of it from the race detector
	chat := func(body string) error { _, err := Decode([]byte(body), jsonbody.Reading{}); return err }
	response := func(body string) error { _, err := wire.Decode([]byte(body), jsonbody.Reading{}); return err }
	for name, tc := range map[string]struct {
		decode     func(string) error
		body, what string // %s: the list; #: a number in it
		param      string
	}{
		"messages": {chat, `{"model":"m","messages":[%s]}`, `{}`, "messages"},
		"short lists": {chat, `{"model":"m","messages":[%s]}`,
			`{"role":"user","content":[` + strings.Repeat("{},", 999) + `{}]}`, "messages[0].content[0].type"},
		"parts": {chat, `{"model":"m","messages":[{"role":"user","content":[%s]}]}`, `{}`,
			"messages[0].content"},
		"calls": {chat, `{"model":"m","messages":[{"role":"assistant","tool_calls":[%s]}]}`, `{}`,
			"messages[0].tool_calls"},
		"tools":        {chat, asking(`"tools":[%s]`), `{}`, "tools[0].type"},
		"functions":    {chat, asking(`"functions":[%s]`), `{}`, "functions[0].name"},
		"items":        {response, `{"model":"m","input":[%s]}`, `{}`, "input"},
		"item parts":   {response, `{"model":"m","input":[{"role":"user","content":[%s]}]}`, `{}`, "input[0].content"},
		"client tools": {response, `{"model":"m","input":"x","tools":[%s]}`, `1`, "tools"},
		"item tools": {response, `{"model":"m","input":[{"type":"additional_tools","tools":[%s]}]}`, `1`,
			"input[0].tools"},
		"summary": {response, `{"model":"m","input":[{"type":"reasoning","summary":[%s]}]}`, `{}`,
			"input[0].summary"},
		"summaries": {response, `{"model":"m","input":[%s]}`,
			`{"type":"reasoning","summary":[` + strings.Repeat("{},", 999) + `{}]}`, "input[0].summary[0].type"},
		"grouped tools": {response, `{"model":"m","input":"x","tools":[{"type":"namespace","name":"n","tools":[%s]}]}`,
			`1`, "tools[0].tools"},
		"modalities": {chat, asking(`"modalities":[%s]`), `""`, "modalities"},
		"include":    {response, `{"model":"m","input":"x","include":[%s]}`, `""`, "include"},
		"allowed tools": {response,
			`{"model":"m","input":"x","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[%s]}}`, `1`,
			"tool_choice.tools"},
		"group of chat": {chat, asking(
			`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[%s]}}`), `1`,
			"tool_choice.tools"},
		"choice": {response, `{"model":"m","input":"x","tool_choice":{"type":"custom","name":"f",%s}}`, `"#":1`,
			"tool_choice"},
		"members":   {chat, asking(`%s`), `"#":1`, ""},
		"metadata":  {response, `{"model":"m","input":"x","metadata":{%s}}`, `"#":""`, "metadata"},
		"reasoning": {response, `{"model":"m","input":"x","reasoning":{%s}}`, `"#":null`, "reasoning"},
		"properties": {chat, asking(
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{%s}}}}]`), `"#":{}`,
			"tools[0].function.parameters"},
		"lists": {chat, asking(
			`"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":{"enum":[%s]}}}`), `[]`,
			"response_format.json_schema.schema"},
		"deep schemas": {chat, asking(`"tools":[%s]`), deepTool(), "tools[1].function.name"},
	} {
		t.Run(name, func(t *testing.T) {
			var list strings.Builder
			for i := 0; list.Len() < size-len(tc.what); i++ {
				list.WriteString(strings.ReplaceAll(tc.what, "#", strconv.FormatInt(int64(i), 36)) + ",")
			}
			body := fmt.Sprintf(tc.body, list.String()+strings.ReplaceAll(tc.what, "#", "last"))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := tc.decode(body)
			runtime.ReadMemStats(&after)
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tc.param, e.Param, e.Message)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(times*size))
		})
	}
}

// deepTool has many properties where their paths are long.
func deepTool() string {
	var leaves strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&leaves, `"%d":{"title":"%s"},`, i, strings.Repeat("x", 150))
	}
	const levels = 40
	return `{"type":"function","function":{"name":"f","parameters":` +
		strings.Repeat(`{"properties":{"`+strings.Repeat("k", 60)+`":`, levels) +
		`{"properties":{` + leaves.String() + `"x":{}}}` + strings.Repeat(`}}`, levels) + `}}`
}

// An error in a list has the path of its element.
func TestWrongTypesInLists(t *testing.T) {
	rejects(t, `{"model":"m","messages":{}}`, "invalid_type", "messages")
	rejects(t, `{"model":"m","messages":[{},{"role":7}]}`, "invalid_type", "messages[1].role")
	rejects(t, `{"model":"m","messages":[{},7]}`, "invalid_type", "messages[1]")
	rejects(t, `{"model":"m","messages":null}`, "messages_required", "messages")
}

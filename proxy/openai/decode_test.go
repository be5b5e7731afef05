package openai

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is far too long is refused without taking a multiple of its size in memory.
func TestLongListsAreNotDecoded(t *testing.T) {
	const size, times = 1 << 20, 16
	chat := func(body string) error { _, err := DecodeChat([]byte(body)); return err }
	response := func(body string) error { _, err := DecodeResponse([]byte(body)); return err }
	for name, tc := range map[string]struct {
		decode     func(string) error
		body, what string // %s: the list
		param      string
	}{
		"messages":      {chat, `{"model":"m","messages":[%s]}`, `{}`, "messages"},
		"short lists":   {chat, `{"model":"m","messages":[%s]}`, `{"role":"user","content":[` + strings.Repeat("{},", 999) + `{}]}`, "messages[0].content[0].type"},
		"parts":         {chat, `{"model":"m","messages":[{"role":"user","content":[%s]}]}`, `{}`, "messages[0].content"},
		"calls":         {chat, `{"model":"m","messages":[{"role":"assistant","tool_calls":[%s]}]}`, `{}`, "messages[0].tool_calls"},
		"tools":         {chat, asking(`"tools":[%s]`), `{}`, "tools[0].type"},
		"functions":     {chat, asking(`"functions":[%s]`), `{}`, "functions[0].name"},
		"items":         {response, `{"model":"m","input":[%s]}`, `1`, "input"},
		"item parts":    {response, `{"model":"m","input":[{"role":"user","content":[%s]}]}`, `{}`, "input[0].content"},
		"client tools":  {response, `{"model":"m","input":"x","tools":[%s]}`, `1`, "tools"},
		"item tools":    {response, `{"model":"m","input":[{"type":"additional_tools","tools":[%s]}]}`, `1`, "input[0].tools"},
		"grouped tools": {response, `{"model":"m","input":"x","tools":[{"type":"namespace","name":"n","tools":[%s]}]}`, `1`, "tools[0].tools"},
	} {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf(tc.body, strings.Repeat(tc.what+",", size/(len(tc.what)+1))+tc.what)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := tc.decode(body)
			runtime.ReadMemStats(&after)
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tc.param, e.Param, e.Message)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(times*size))
		})
	}
}

// An error in a list says where.
func TestWrongTypesInLists(t *testing.T) {
	rejects(t, `{"model":"m","messages":{}}`, "invalid_type", "messages")
	rejects(t, `{"model":"m","messages":[{},{"role":7}]}`, "invalid_type", "messages[1].role")
	rejects(t, `{"model":"m","messages":[{},7]}`, "invalid_type", "messages[1]")
	rejects(t, `{"model":"m","messages":null}`, "messages_required", "messages")
}

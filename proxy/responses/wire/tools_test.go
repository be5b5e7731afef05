package wire

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/proxy/openai/clienttool"
)

func TestFoundTools(t *testing.T) {
	assert.Equal(t, []clienttool.Function{
		{Name: "client_mcp__files__read", Description: "reads", Parameters: json.RawMessage(emptyObject)},
		{Name: "b", Parameters: json.RawMessage(emptyObject)},
	},
		FoundTools([]json.RawMessage{
			[]byte(`{"type":"namespace","name":"mcp__files","tools":[{"type":"function","name":"read",` +
				`"description":"reads"}]}`),
			[]byte(`{"type":"function","name":"b"}`)}))
}

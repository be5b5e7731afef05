package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	chatwire "codex-proxy/proxy/chat/wire"
	completionwire "codex-proxy/proxy/completions/wire"
	"codex-proxy/proxy/conversations"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/test/contract"
)

// Every name of OpenAI's types is known to the decoder of its endpoint, and every type of items has a rule. `make
// nightly` runs this test with the types of the newest library.
func TestNamesOfTheReferenceAreKnown(t *testing.T) {
	names, err := contract.Names("openai.json")
	require.NoError(t, err)
	var checked []string
	for api, decode := range map[string]func(body string) error{
		"chat":               decoder(chatwire.Decode),
		"completions":        decoder(completionwire.Decode),
		"responses":          decoder(wire.Decode),
		"compact":            decoder(wire.DecodeCompact),
		"inputTokens":        decoder(wire.DecodeInputTokens),
		"socket":             decoder(wire.DecodeCreate),
		"conversation":       decoder(conversations.DecodeNew),
		"conversationUpdate": decoder(conversations.DecodeUpdate),
		"conversationItems":  decoder(conversations.DecodeItems),
		"reasoning": func(fields string) error {
			return decoder(wire.Decode)(`{"model":"m","input":"q","reasoning":` + fields + `}`)
		},
	} {
		require.NotEmpty(t, names[api], api)
		for _, name := range names[api] {
			code, message := refusal(decode(bodyWith(api, name)))
			assert.NotEqual(t, "unknown_parameter", code, "%s: give the parameter a rule in its table: %s", api, message)
		}
		code, _ := refusal(decode(bodyWith(api, "no_such_name")))
		assert.Equal(t, "unknown_parameter", code, "%s: other names are unknown", api)
		checked = append(checked, api)
	}
	require.NotEmpty(t, names["items"])
	for _, kind := range names["items"] {
		checkItemType(t, kind)
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(names)), append(checked, "items"), "of the names, none is left out")
}

// bodyWith is a body with the parameter; endpoints that need a model have one.
func bodyWith(api, name string) string {
	if name == "model" || slices.Contains([]string{"conversation", "conversationUpdate", "conversationItems", "reasoning"}, api) {
		return fmt.Sprintf(`{%q:0}`, name)
	}
	return fmt.Sprintf(`{"model":"m",%q:0}`, name)
}

func decoder[R any](decode func([]byte, jsonbody.Reading) (R, error)) func(body string) error {
	return func(body string) error {
		_, err := decode([]byte(body), jsonbody.Reading{})
		return err
	}
}

// checkItemType sends an item that has a type alone. A type with a rule is read, or refused with a reason.
func checkItemType(t *testing.T, kind string) {
	t.Helper()
	item, err := json.Marshal(map[string]string{"type": kind})
	require.NoError(t, err)
	code, message := refusal(decoder(wire.Decode)(`{"model":"m","input":[` + string(item) + `]}`))
	if code == "unsupported_parameter" {
		assert.Contains(t, message, "are not supported: ", "give items of the type %s a rule", kind)
	}
}

// refusal is the code and the message of an error; empty without an error.
func refusal(err error) (code, message string) {
	var refused *openai.Error
	if errors.As(err, &refused) {
		code, message = refused.Code, refused.Message
	}
	return code, message
}

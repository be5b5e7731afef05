package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/contract"
)

// Every name of OpenAI's types is in the table of its endpoint, and every type of items has a rule. `make nightly` runs
// this test with the types of the newest library.
func TestNamesOfTheReferenceAreKnown(t *testing.T) {
	names, err := contract.Names("openai.json")
	require.NoError(t, err)
	known := map[string]params{
		"chat": chatParams, "completions": completionParams, "responses": responseParams, "compact": compactParams,
		"inputTokens": inputTokensParams,
	}
	for api, table := range known {
		require.NotEmpty(t, names[api], api)
		for _, name := range names[api] {
			assert.Contains(t, table, name, "%s: give the parameter a rule in its table", api)
		}
	}
	checked := slices.Collect(maps.Keys(known))
	for api, decode := range map[string]func(body string) error{
		"socket":             func(body string) error { return failure(DecodeResponseCreate([]byte(body))) },
		"conversation":       func(body string) error { return failure(DecodeConversation([]byte(body))) },
		"conversationUpdate": func(body string) error { return failure(DecodeConversationUpdate([]byte(body))) },
		"conversationItems":  func(body string) error { return failure(DecodeConversationItems([]byte(body))) },
		"reasoning": func(fields string) error {
			return failure(DecodeResponse([]byte(`{"model":"m","input":"q","reasoning":` + fields + `}`)))
		},
	} {
		require.NotEmpty(t, names[api], api)
		for _, name := range names[api] {
			code, message := refusal(decode(fmt.Sprintf(`{%q:0}`, name)))
			assert.NotEqual(t, "unknown_parameter", code, "%s: %s", api, message)
		}
		checked = append(checked, api)
	}
	require.NotEmpty(t, names["items"])
	for _, kind := range names["items"] {
		checkItemType(t, kind)
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(names)), append(checked, "items"), "of the names, none is left out")
}

func failure[T any](_ T, err error) error { return err }

// checkItemType sends an item that has a type alone.
func checkItemType(t *testing.T, kind string) {
	t.Helper()
	item, err := json.Marshal(map[string]string{"type": kind})
	require.NoError(t, err)
	_, err = DecodeResponse([]byte(`{"model":"m","input":[` + string(item) + `]}`))
	_, isRefused := refusedItems[kind]
	code, message := refusal(err)
	assert.Equal(t, isRefused, code == "unsupported_parameter", "give items of the type %s a rule: %s", kind, message)
}

// refusal is the code and the message of an error; empty: it is none.
func refusal(err error) (code, message string) {
	var refused *Error
	if errors.As(err, &refused) {
		code, message = refused.Code, refused.Message
	}
	return code, message
}

package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
)

func TestConfigurationUpdate(t *testing.T) {
	req, err := Decode([]byte(`{"model":"m","reasoning":{"effort":"high"},"text":{"format":{"type":"json_object"}},"input":[
		{"role":"user","content":"a"},
		{"type":"configuration_update","reasoning":{"effort":"low"},"text":{"format":{"type":"text"}}},
		{"type":"configuration_update","id":"cu_2","reasoning":{"effort":null}}]}`), jsonbody.Reading{})

	require.NoError(t, err)
	assert.Equal(t, "low", req.Reasoning.Effort, "it counts before the parameter")
	assert.Equal(t, jsonschema.Format{}, req.Format)
	assert.JSONEq(t, `{"type":"text"}`, string(req.TextFormat))
	require.Len(t, req.Input, 3)
	encoded, err := req.Input[1].Encode()
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"configuration_update","reasoning":{"effort":"low"},"text":{"format":{"type":"text"}}}`,
		string(encoded))
	decoded, err := DecodeItem(encoded)
	require.NoError(t, err)

	for extra, want := range map[string]string{``: "low", `"reasoning":{"effort":"high"},`: "high"} {
		later, err := Decode([]byte(`{"model":"m",`+extra+`"previous_response_id":"r","input":"q"}`), jsonbody.Reading{})
		require.NoError(t, err)
		later.ApplyUpdates([]Item{{Type: ItemMessage}, decoded, {Type: ItemUpdate}})
		assert.Equal(t, want, later.Reasoning.Effort, extra)
		var echo Response
		later.EchoUpdated(&echo)
		assert.Equal(t, want, *echo.Reasoning.Effort)
	}
	for body, param := range map[string]string{
		`"reasoning":{"effort":"huge"}`:       "input[0].reasoning.effort",
		`"reasoning":{"effort":1}`:            "input[0].reasoning",
		`"text":{}`:                           "input[0].text.format",
		`"text":{"format":{"type":"poetry"}}`: "input[0].text.format.type",
	} {
		_, err := Decode([]byte(`{"model":"m","input":[{"type":"configuration_update",`+body+`}]}`), jsonbody.Reading{})
		var refusal *openai.Error
		require.ErrorAs(t, err, &refusal, body)
		assert.Equal(t, param, refusal.Param)
	}
}

func TestPromptCacheOptions(t *testing.T) {
	for options, want := range map[string]struct {
		prewarm bool
		ignored []string
	}{
		`null`:                           {},
		`{}`:                             {},
		`{"prewarm":false}`:              {false, []string{CacheOptions}},
		`{"prewarm":true}`:               {prewarm: true},
		`{"prewarm":true,"ttl":"12h"}`:   {true, []string{CacheOptions}},
		`{"mode":"explicit","ttl":"1h"}`: {false, []string{CacheOptions}},
	} {
		req, err := Decode([]byte(`{"model":"m","input":"q","prompt_cache_options":`+options+`}`), jsonbody.Reading{})
		require.NoError(t, err, options)
		assert.Equal(t, want.prewarm, req.NoGenerate, options)
		assert.ElementsMatch(t, want.ignored, req.Ignored, options)
	}
	_, err := Decode([]byte(`{"model":"m","input":"q","prompt_cache_options":{"prewarm":1}}`), jsonbody.Reading{})
	require.Error(t, err)
	_, err = DecodeCreate([]byte(`{"type":"response.create","model":"m","input":"q","generate":true,`+
		`"prompt_cache_options":{"prewarm":true}}`), jsonbody.Reading{})

	require.NoError(t, err)
}

// Clients replay messages with members of their own, such as the reasoning of another gateway.
func TestOtherItemsMayHaveThoseMembers(t *testing.T) {
	for _, item := range []string{`{"type":"message","role":"assistant","content":"x","reasoning":"why","text":"y"}`,
		`{"role":"user","content":"x","text":1}`} {
		_, err := Decode([]byte(`{"model":"m","input":[`+item+`]}`), jsonbody.Reading{})
		assert.NoError(t, err, item)
	}
}

package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// openaiGoResponses are the cases of the Responses API.
func (c *clients) openaiGoResponses(t *testing.T) {
	t.Run("streaming", c.goResponseStream)
	t.Run("tools", c.goResponseTools)
	t.Run("chain", c.goResponseChain)
	t.Run("structured output", c.goResponseStructured)
	t.Run("image", c.goResponseImage)
}

func prompt(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: bed.Model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func (c *clients) goResponseStream(t *testing.T) {
	sdk := c.sdk()
	stream := sdk.Responses.NewStreaming(t.Context(), prompt("[[reasoning why]] [[text one ]] [[text two]]"))
	text, last := "", responses.ResponseStreamEventUnion{}
	for stream.Next() {
		last = stream.Current()
		if last.Type == "response.output_text.delta" {
			text += last.Delta
		}
	}
	require.NoError(t, stream.Err())
	assert.Equal(t, "response.completed", last.Type)
	assert.Equal(t, "one two", text)
	assert.Equal(t, text, last.Response.OutputText())
}

func (c *clients) goResponseTools(t *testing.T) {
	const word = "go-responses-tools"
	sdk := c.sdk()
	params := prompt(word + bothCalls)
	params.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", bed.WeatherSchema, true)}
	first, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)

	var outputs responses.ResponseInputParam
	for _, item := range first.Output {
		if call := item.AsFunctionCall(); item.Type == "function_call" {
			output := responses.ResponseInputItemParamOfFunctionCallOutput(bed.Sunny(t, call.Arguments))
			output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			outputs = append(outputs, output)
		}
	}
	require.Len(t, outputs, 2)
	params.PreviousResponseID = openai.String(first.ID)
	params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: outputs}
	second, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)
	assert.Equal(t, "hello from the model server", second.OutputText())
	assertResults(c.Bed, t, word)
}

func (c *clients) goResponseChain(t *testing.T) {
	sdk := c.sdk()
	previous := ""
	for _, n := range []string{"1", "2", "3"} {
		params := prompt("go-chain-" + n + " [[text answer " + n + "]]")
		if previous != "" {
			params.PreviousResponseID = openai.String(previous)
		}
		r, err := sdk.Responses.New(t.Context(), params)
		require.NoError(t, err)
		assert.Equal(t, previous, r.PreviousResponseID)
		previous = r.ID
	}
	turns := bed.TurnsWith(c.Bed, "go-chain-3")
	require.Len(t, turns, 1)
	input := string(turns[0].Body.Raw)
	var places []int
	for _, part := range []string{"go-chain-1", `"answer 1"`, "go-chain-2", `"answer 2"`, "go-chain-3"} {
		places = append(places, strings.Index(input, part))
	}
	assert.Positive(t, places[0])
	assert.True(t, slices.IsSorted(places), "%v", places)

	kept, err := sdk.Responses.Get(t.Context(), previous, responses.ResponseGetParams{})
	require.NoError(t, err)
	assert.Equal(t, "answer 3", kept.OutputText())
	require.NoError(t, sdk.Responses.Delete(t.Context(), previous))
	_, err = sdk.Responses.Get(t.Context(), previous, responses.ResponseGetParams{})
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, http.StatusNotFound, e.StatusCode)
}

func (c *clients) goResponseStructured(t *testing.T) {
	params := prompt(`go-responses-schema [[text {"city":"Rome","population":2800000}]]`)
	params.Text.Format = responses.ResponseFormatTextConfigParamOfJSONSchema("city", citySchema)
	sdk := c.sdk()
	r, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)
	assertCity(t, r.OutputText())
	assert.Contains(t, string(bed.TurnsWith(c.Bed, "go-responses-schema")[0].Body.Text.Format), `"population"`)
}

func (c *clients) goResponseImage(t *testing.T) {
	image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
	image.OfInputImage.ImageURL = openai.String(pixel)
	params := responses.ResponseNewParams{Model: bed.Model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{
				responses.ResponseInputContentParamOfInputText("go-responses-image [[text a pixel]]"), image,
			}, responses.EasyInputMessageRoleUser),
		}}}
	sdk := c.sdk()
	r, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)
	assert.Equal(t, "a pixel", r.OutputText())
	assert.Contains(t, string(bed.TurnsWith(c.Bed, "go-responses-image")[0].Body.Raw), pixel)
}

package api

import (
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// openaiGoBackground has openai-go's calls for background responses and conversations.
func (c *clients) openaiGoBackground(t *testing.T) {
	t.Run("resumed after a reload", c.goResumed)
	t.Run("cancelled", c.goCancelled)
	t.Run("conversation", c.goConversation)
}

// collect reads a stream until the event of which stop reports true, or to its end.
func collect(t *testing.T, stream *ssestream.Stream[responses.ResponseStreamEventUnion],
	stop func(responses.ResponseStreamEventUnion) bool) (events []responses.ResponseStreamEventUnion) {
	t.Helper()
	defer stream.Close()
	for stream.Next() {
		events = append(events, stream.Current())
		if stop(stream.Current()) {
			return events
		}
	}
	require.NoError(t, stream.Err())
	return events
}

func toItsEnd(responses.ResponseStreamEventUnion) bool { return false }

// The process of before a reload finishes a turn whose stream its client has left; the client reads on from the next
// process.
func (c *clients) goResumed(t *testing.T) {
	sdk := c.sdk()
	params := prompt("[[reasoning why]] [[text one ]] [[gate go-resumed]] [[text two]]")
	params.Background = openai.Bool(true)
	first := collect(t, sdk.Responses.NewStreaming(t.Context(), params), func(e responses.ResponseStreamEventUnion) bool {
		return e.Type == "response.output_text.delta"
	})
	id, last := first[0].Response.ID, first[len(first)-1].SequenceNumber
	c.MustRun(t, "systemctl", "reload", bed.ProxyUnit)
	running, err := sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	require.NoError(t, err)
	assert.Equal(t, responses.ResponseStatusInProgress, running.Status)

	rest := sdk.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: openai.Int(last)})
	c.Models.Release("go-resumed")
	events := append(first, collect(t, rest, toItsEnd)...)
	assert.Equal(t, "one two", events[len(events)-1].Response.OutputText())
	for i, e := range events {
		assert.EqualValues(t, i, e.SequenceNumber)
	}
	again := collect(t, sdk.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}), toItsEnd)
	require.Len(t, again, len(events))
	for i, e := range again {
		assert.Equal(t, events[i].RawJSON(), e.RawJSON())
	}
}

func (c *clients) goCancelled(t *testing.T) {
	sdk := c.sdk()
	params := prompt("[[text so far]] [[silence]]")
	params.Background = openai.Bool(true)
	begun, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)
	assert.True(t, begun.Background)
	for range 2 {
		cancelled, err := sdk.Responses.Cancel(t.Context(), begun.ID)
		require.NoError(t, err)
		assert.Equal(t, responses.ResponseStatusCancelled, cancelled.Status)
	}
}

func (c *clients) goConversation(t *testing.T) {
	sdk := c.sdk()
	made, err := sdk.Conversations.New(t.Context(), conversations.ConversationNewParams{})
	require.NoError(t, err)
	for _, text := range []string{"one", "two"} {
		params := prompt("go-conversation [[text " + text + "]]")
		params.Conversation.OfString = openai.String(made.ID)
		r, err := sdk.Responses.New(t.Context(), params)
		require.NoError(t, err)
		assert.Equal(t, made.ID, r.Conversation.ID)
		assert.Equal(t, text, r.OutputText())
	}
	assert.Contains(t, string(bed.TurnsWith(c.Bed, "go-conversation")[1].Body.Raw), `"one"`)
	var texts []string
	items := sdk.Conversations.Items.ListAutoPaging(t.Context(), made.ID,
		conversations.ItemListParams{Order: conversations.ItemListParamsOrderAsc, Limit: openai.Int(1)})
	for items.Next() {
		texts = append(texts, items.Current().AsMessage().Content[0].Text)
	}
	require.NoError(t, items.Err())
	assert.Equal(t, []string{"go-conversation [[text one]]", "one", "go-conversation [[text two]]", "two"}, texts)
	_, err = sdk.Conversations.Delete(t.Context(), made.ID)
	require.NoError(t, err)
	_, err = sdk.Conversations.Get(t.Context(), made.ID)
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, http.StatusNotFound, e.StatusCode)
}

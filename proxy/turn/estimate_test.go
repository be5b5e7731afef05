package turn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
)

func estimated(t *testing.T, turn appserver.TurnRequest) *estimate {
	t.Helper()
	e := &estimate{began: true}
	e.commit(&turn, true)
	return e
}

func TestEstimateOfAShortInputIsExact(t *testing.T) {
	e := estimated(t, appserver.TurnRequest{Items: []history.Item{history.TextMessage("user", "hello world")}})
	require.NotEmpty(t, e.input.Items)
	assert.EqualValues(t, 8, e.inputTokens(t.Context(), true))
}

// Beyond a bound nothing is kept, whatever the input is made of.
func TestEstimateOfALongInput(t *testing.T) {
	long := strings.Repeat("word ", held)
	image := `{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + long + `"}]}`
	for name, tc := range map[string]struct {
		turn  appserver.TurnRequest
		least int64
		most  int64
	}{
		"text":   {appserver.TurnRequest{Items: []history.Item{history.TextMessage("user", long)}}, held, 2 * held},
		"tools":  {appserver.TurnRequest{Tools: []appserver.Tool{{Name: "f", InputSchema: []byte(`{"x":"` + long + `"}`)}}}, held, 2 * held},
		"schema": {appserver.TurnRequest{OutputSchema: []byte(`{"x":"` + long + `"}`)}, held, 2 * held},
		"image":  {appserver.TurnRequest{Items: []history.Item{history.Item(image)}}, perImage, perImage + 100},
	} {
		e := estimated(t, tc.turn)
		assert.Empty(t, e.input.Items, name)
		n := e.inputTokens(t.Context(), true)
		assert.GreaterOrEqual(t, n, tc.least, name)
		assert.LessOrEqual(t, n, tc.most, name)
	}
}

func TestEstimateOfALongOutputKeepsItsBeginning(t *testing.T) {
	e := &estimate{}
	for range 100 {
		e.delivered(strings.Repeat("word ", 2000))
	}
	assert.Len(t, e.text, held)
	assert.Greater(t, e.output(t.Context(), true), int64(200_000))
	e.counted()
	assert.Zero(t, e.output(t.Context(), true))
}

func TestATurnIsChargedOnce(t *testing.T) {
	r := &run{Request: Request{Turn: &appserver.TurnRequest{Items: []history.Item{history.TextMessage("user", "hi")}}, Report: &Report{}}}
	r.estimate.began = true
	r.estimate.delivered("one two three")
	r.charge(t.Context(), ErrEnough)
	require.NotNil(t, r.Report.Usage)
	once := *r.Report.Usage
	assert.EqualValues(t, 3, once.OutputTokens)
	r.charge(t.Context(), ErrClientGone)
	assert.Equal(t, once, *r.Report.Usage)
}

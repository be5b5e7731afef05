package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/test/bed"
)

// burstCalls are more calls at the same time than a worker has places by default.
const burstCalls = 100

// A burst of calls of one key waits for its places: with the default settings of the
// service and of the official libraries, no call fails, and none is refused and retried.
func TestBursts(t *testing.T) {
	t.Parallel() // it measures no times
	c := newClients(t)
	t.Run("openai-go", c.burstOfGo)
	t.Run("npm", func(t *testing.T) {
		before := len(c.Models.Turns())
		assert.NoError(t, c.run(t, bed.ClientsDir+"/cases/burst.mjs"))
		assert.Len(t, c.Models.Turns(), before+burstCalls)
	})
}

func (c *clients) burstOfGo(t *testing.T) {
	refused := make(chan int, 3*burstCalls)
	sdk := openai.NewClient(option.WithBaseURL(bed.Base+"/v1"), option.WithAPIKey(c.key), option.WithHTTPClient(c.HTTP),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			res, err := next(r)
			if err == nil && res.StatusCode != http.StatusOK {
				refused <- res.StatusCode
			}
			return res, err
		}))
	before := len(c.Models.Turns())
	var calls errgroup.Group
	for i := range burstCalls {
		calls.Go(func() error {
			answer, err := sdk.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
				Model: bed.Model, Messages: []openai.ChatCompletionMessageParamUnion{
					openai.UserMessage(fmt.Sprintf("go %d [[delay 3s]][[text done]]", i))},
			})
			if err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
			if text := answer.Choices[0].Message.Content; text != "done" {
				return fmt.Errorf("call %d: %q", i, text)
			}
			return nil
		})
	}
	require.NoError(t, calls.Wait())
	assert.Empty(t, refused)
	assert.Len(t, c.Models.Turns(), before+burstCalls)
}

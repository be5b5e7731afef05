package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/sync/errgroup"

	"codex-proxy/test/bed"
)

// asked is one request of a client that retries.
type asked struct {
	began, ended time.Time
	status       int
	after        string // Retry-After
}

// retriedByGo asserts that openai-go waits for Retry-After and then succeeds.
func (c *clients) retriedByGo(t *testing.T) error {
	var statuses [2]int
	var group errgroup.Group
	for i := range statuses {
		group.Go(func() (err error) {
			statuses[i], err = c.retryByGo(t)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if slices.Sort(statuses[:]); statuses != [2]int{429, 503} {
		return fmt.Errorf("the first answers were %v", statuses)
	}
	return nil
}

func (c *clients) retryByGo(t *testing.T) (status int, err error) {
	var log []asked
	sdk := c.sdk(option.WithMaxRetries(1), option.WithMiddleware(func(r *http.Request,
		next option.MiddlewareNext) (*http.Response, error) {
		a := asked{began: time.Now()}
		res, err := next(r)
		if err == nil {
			a.ended, a.status, a.after = time.Now(), res.StatusCode, res.Header.Get("Retry-After")
		}
		log = append(log, a)
		return res, err
	}))
	answer, err := sdk.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: bed.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("retried-by-go")},
	})
	if err != nil {
		return 0, err
	}
	if text := answer.Choices[0].Message.Content; text != "hello from the model server" || len(log) != 2 {
		return 0, fmt.Errorf("%q after %d requests", text, len(log))
	}
	seconds, err := strconv.Atoi(log[0].after)
	if err != nil {
		return 0, err
	}
	waited, asked := log[1].began.Sub(log[0].ended), time.Duration(seconds)*time.Second
	t.Logf("openai-go: %d, Retry-After %s, asked again after %s", log[0].status, asked, waited.Round(time.Millisecond))
	if waited < asked {
		return 0, fmt.Errorf("waited %s, not %s", waited, asked)
	}
	return log[0].status, nil
}

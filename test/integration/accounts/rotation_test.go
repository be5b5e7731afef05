package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

const (
	rotatingConfig = "max_inflight = 48\n[accounts]\nrotation = \"ordered\"\n"
	rotatingSize   = 32 // clients
	rotatingTurns  = 6  // of each client's conversation
	allowed        = 50 // turns of the accounts that run out
)

// A, B and C are used up in turn under 32 clients, and no turn fails or runs twice: openai-go with its defaults sees
// no error, not even one that it would try again.
func TestRotation(t *testing.T) {
	t.Parallel()
	testRotation(bed.NewAccounts(t, bed.Newest, rotatingConfig, "a", "b", "c"))
}

func testRotation(b *bed.AccountsBed) {
	t := b.T
	b.Server.Account("a").Allow(allowed)
	b.Server.Account("b").Allow(allowed)
	b.Start()
	b.UntilWorkersReady()
	users := converse(b, "first")
	a, second := b.Server.Account("a").Record(), b.Server.Account("b").Record()
	assert.NotZero(t, a.Refused(), "a has run out")
	assert.NotZero(t, second.Refused(), "b has run out")
	assert.NotEmpty(t, b.Server.Account("c").Record().Turns)
	assertLedger(b, users)

	b.Server.Account("a").Allow(rotatingSize * rotatingTurns * 2)
	ctx, cancel := context.WithTimeout(t.Context(), 2*bed.Bound)
	defer cancel()
	b.UntilMetricWithin(ctx, `codex_account_state{account="a",state="available"} 1`) // by the reading of that minute
	b.Server.Account("c").Exhaust(time.Now().Add(time.Hour))
	more := converse(b, "second")
	assert.NotZero(t, b.Server.Account("c").Record().Refused(), "c has run out")
	assertLedger(b, append(users, more...))
	assert.Equal(t, b.AllRefused(), rotationsOf(b, t), "each refused turn has run on another account")
}

// user is a client with one conversation.
type user struct {
	name     string
	failed   atomic.Int64 // answers that were no 200, tried again or not
	answered []string     // prompts
}

// converse has the clients hold their conversations at the same time: half of them in chats, half in responses that
// continue each other.
func converse(a *bed.AccountsBed, name string) []*user {
	a.T.Helper()
	var users []*user
	var done sync.WaitGroup
	for i := range rotatingSize {
		u := &user{name: fmt.Sprintf("%s-%02d", name, i)}
		users = append(users, u)
		hold := u.chats
		if i%2 == 1 {
			hold = u.responds
		}
		done.Go(func() { assert.NoError(a.T, hold(a.T, u.sdk(a.HTTP))) })
	}
	done.Wait()
	return users
}

// sdk has openai-go's own settings.
func (u *user) sdk(client *http.Client) openai.Client {
	count := func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			u.failed.Add(1)
		}
		return resp, err
	}
	return openai.NewClient(option.WithBaseURL(bed.Base+"/v1"), option.WithAPIKey("none"),
		option.WithHTTPClient(client), option.WithMiddleware(count))
}

// prompt is the n-th prompt, which the model answers with its name.
func (u *user) prompt(n int) string {
	word := fmt.Sprintf("%s-%d", u.name, n)
	u.answered = append(u.answered, word)
	return word + " [[reasoning why]] [[text answer to " + word + "]]"
}

func (u *user) chats(t *testing.T, sdk openai.Client) error {
	params := openai.ChatCompletionNewParams{Model: bed.OpenAIModel}
	for n := range rotatingTurns {
		params.Messages = append(params.Messages, openai.UserMessage(u.prompt(n)))
		stream := sdk.Chat.Completions.NewStreaming(t.Context(), params)
		var whole openai.ChatCompletionAccumulator
		for stream.Next() {
			whole.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
		answer := whole.Choices[0].Message
		assert.Equal(t, fmt.Sprintf("answer to %s-%d", u.name, n), answer.Content)
		params.Messages = append(params.Messages, answer.ToParam())
	}
	return nil
}

func (u *user) responds(t *testing.T, sdk openai.Client) error {
	previous := ""
	for n := range rotatingTurns {
		params := responses.ResponseNewParams{Model: bed.OpenAIModel,
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(u.prompt(n))}}
		if previous != "" {
			params.PreviousResponseID = openai.String(previous)
		}
		answer, err := sdk.Responses.New(t.Context(), params)
		if err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
		assert.Equal(t, fmt.Sprintf("answer to %s-%d", u.name, n), answer.OutputText())
		previous = answer.ID
	}
	return nil
}

// assertLedger asserts that each prompt was answered once, by one account, and that no account got the reasoning of
// another.
func assertLedger(a *bed.AccountsBed, users []*user) {
	a.T.Helper()
	served := map[string]int{}
	for _, account := range a.Server.Accounts() {
		record, refused := account.Record(), map[string]int{}
		assert.Zero(a.T, record.Foreign(), "%s got the reasoning of another account", account.Name)
		for _, turn := range record.Turns {
			word, _, _ := strings.Cut(turn.Text, " ")
			if turn.Refused {
				refused[word]++
			} else {
				served[word]++
			}
		}
		for word, n := range refused {
			assert.Equal(a.T, 1, n, "%s was refused by %s more than once", word, account.Name)
		}
	}
	for _, u := range users {
		assert.Zero(a.T, u.failed.Load(), "%s got answers other than 200", u.name)
		for _, word := range u.answered {
			assert.Equal(a.T, 1, served[word], "turns of %s that were served", word)
			delete(served, word)
		}
	}
	assert.Empty(a.T, served, "turns that no client wanted")
}

// rotationsOf is the sum of codex_turn_rotations_total.
func rotationsOf(a *bed.AccountsBed, t *testing.T) (sum int) {
	t.Helper()
	_, text := a.Get("/metrics")
	for line := range strings.Lines(string(text)) {
		var n int
		if value := line[strings.LastIndex(line, " ")+1:]; strings.HasPrefix(line, "codex_turn_rotations_total{") {
			_, err := fmt.Sscan(value, &n)
			require.NoError(t, err)
			sum += n
		}
	}
	return sum
}

// A conversation goes on with its tools and its history when its account runs out, in each form in which a client
// holds it, and without the reasoning that the first account encrypted.
func TestCarriedOver(t *testing.T) {
	t.Parallel()
	testCarriedOver(t, bed.NewAccounts(t, bed.Newest, rotatingConfig, "a", "b", "c", "d", "e"))
}

func testCarriedOver(t *testing.T, b *bed.AccountsBed) {
	b.Start()
	b.UntilWorkersReady()
	for form, next := range forms() {
		for _, how := range []accountserver.Refusals{accountserver.ByStatus, accountserver.InStream} {
			t.Run(form+string(how), func(t *testing.T) { carriesOver(b, t, "carry-"+form+string(how), how, next) })
		}
	}
}

// forms are the forms in which a client continues a response.
func forms() map[string]func(*responses.ResponseNewParams, *responses.Response) {
	return map[string]func(*responses.ResponseNewParams, *responses.Response){
		"stored": func(p *responses.ResponseNewParams, first *responses.Response) {
			p.PreviousResponseID = openai.String(first.ID)
		},
		"repeated": func(p *responses.ResponseNewParams, first *responses.Response) {
			p.Store = openai.Bool(false)
			input := responses.ResponseInputParam{
				responses.ResponseInputItemParamOfMessage(p.Input.OfString.Value, responses.EasyInputMessageRoleUser)}
			for _, made := range first.Output {
				var item responses.ResponseInputItemUnionParam
				_ = item.UnmarshalJSON([]byte(made.RawJSON())) // a wrong one has the next request refused
				input = append(input, item)
			}
			p.Input.OfInputItemList = input
		},
	}
}

func carriesOver(a *bed.AccountsBed, t *testing.T, word string, how accountserver.Refusals,
	next func(*responses.ResponseNewParams, *responses.Response)) {
	u := &user{name: word}
	sdk := u.sdk(a.HTTP)
	params := responses.ResponseNewParams{
		Model: bed.OpenAIModel, Instructions: openai.String("be brief"),
		Input: responses.ResponseNewParamsInputUnion{
			OfString: openai.String(word + ` [[reasoning why]] [[call get_weather {"city":"Paris"}]]`)},
		Tools:   []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", bed.WeatherSchema, true)},
		Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
	}
	first, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)
	call := first.Output[len(first.Output)-1]
	require.Equal(t, "function_call", call.Type)
	require.NotEmpty(t, first.Output[0].AsReasoning().EncryptedContent)
	maker := serving(a, word)
	maker.Refuse(how)
	maker.Exhaust(time.Now().Add(time.Hour))

	next(&params, first)
	output := responses.ResponseInputItemParamOfFunctionCallOutput(bed.Sunny(t, call.Arguments.OfString))
	output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
	params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: append(params.Input.OfInputItemList, output)}
	second, err := sdk.Responses.New(t.Context(), params)
	require.NoError(t, err)
	assert.Equal(t, "hello from the model server", second.OutputText())
	assert.Zero(t, u.failed.Load())
	assert.Equal(t, 1, maker.Record().Refused())
	for _, account := range a.Server.Accounts() {
		assert.Zero(t, account.Record().Foreign(), account.Name)
	}
	turns := bed.TurnsWith(a.Bed, word)
	last := turns[len(turns)-1]
	assert.Equal(t, "call, output", strings.Join(callsIn(t, last.Body.Input), ", "))
	assert.Contains(t, string(last.Body.Raw), `"get_weather"`)
	assert.Contains(t, string(last.Body.Raw), "be brief")
}

// serving is the account that served the only turn with the word.
func serving(a *bed.AccountsBed, word string) *accountserver.Account {
	a.T.Helper()
	for _, account := range a.Server.Accounts() {
		for _, turn := range account.Record().Turns {
			if strings.HasPrefix(turn.Text, word+" ") {
				return account
			}
		}
	}
	require.Fail(a.T, "no account served "+word)
	return nil
}

// callsIn are the calls and their outputs in an input.
func callsIn(t *testing.T, input []json.RawMessage) (kinds []string) {
	t.Helper()
	for _, raw := range input {
		var item struct{ Type string }
		require.NoError(t, json.Unmarshal(raw, &item))
		switch item.Type {
		case "function_call":
			kinds = append(kinds, "call")
		case "function_call_output":
			kinds = append(kinds, "output")
		case "reasoning":
			kinds = append(kinds, "reasoning")
		}
	}
	return kinds
}

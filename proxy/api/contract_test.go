package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/test/contract"
	"codex-proxy/test/nightly"
)

// saying is what a model says in one turn, in the chunks in which it says it.
type saying struct {
	reasoning [][]string // the chunks of each reasoning item
	messages  [][]string
	calls     []contract.Call // their ids are codex's
}

// atOnce is a message without deltas.
const atOnce = "at once"

// play is the saying as codex reports it; it returns the ids of the calls.
func (s saying) play(ctx context.Context, turn *appservertest.Turn) (ids []string) {
	for _, chunks := range s.reasoning {
		turn.Reasoning(chunks...)
	}
	for _, chunks := range s.messages {
		if len(chunks) == 0 {
			turn.Whole(atOnce)
			continue
		}
		turn.Text(chunks...)
	}
	for _, call := range s.calls {
		ids = append(ids, turn.Call(ctx, call.Name, call.Arguments))
	}
	turn.EndResponse(appservertest.Usage{Input: 7, Cached: 3, Output: 5, Reasoning: 2})
	return ids
}

// text is what all messages say, with that between those that say something.
func (s saying) text(between string) string {
	var all []string
	for _, chunks := range s.messages {
		text := strings.Join(chunks, "")
		if len(chunks) == 0 {
			text = atOnce
		}
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, between)
}

// hard are pieces that break what handles text carelessly: JSON, HTML and SSE
// syntax, characters of two to four bytes, sequences that belong together.
var hard = []string{
	"", "", "a", "plain words ", "\n\n", "\r\n", "data: [DONE]\n\n", ": ", "event: error\n",
	`"},"finish_reason":"stop"`, `\u0041\`, "\x00\x1b\x7f",
	"<script>&amp;", "\u2028\u2029", "é", "\u0301", "漢字", "עברית\u200f", "👩\u200d👩\u200d👧", "🏳️\u200d🌈",
	"\U0010fffd\uffff\ufeff",
}

// randomText is up to n hard pieces; every character can be a chunk of its own,
// and chunks can be empty.
func randomText(r *rand.Rand, n int) []string {
	chunks := []string{}
	for range r.IntN(n) {
		piece := hard[r.IntN(len(hard))]
		if r.IntN(2) == 0 {
			chunks = append(chunks, piece)
			continue
		}
		for _, c := range piece {
			chunks = append(chunks, string(c))
		}
	}
	return chunks
}

func randomSaying(r *rand.Rand, tools []contract.Tool) saying {
	var s saying
	for range r.IntN(3) {
		s.reasoning = append(s.reasoning, randomText(r, 6))
	}
	for range r.IntN(3) {
		s.messages = append(s.messages, randomText(r, 12))
	}
	if len(tools) == 0 {
		return s
	}
	for range r.IntN(4) {
		arguments, _ := json.Marshal(map[string]any{"x": strings.Join(randomText(r, 6), "")})
		if r.IntN(5) == 0 {
			arguments = []byte(`{"x": and no JSON`) // models do that
		}
		s.calls = append(s.calls, contract.Call{Name: tools[r.IntN(len(tools))].Name, Arguments: string(arguments)})
	}
	return s
}

// speaker is a rig whose model says what it is told to say.
type speaker struct {
	*apitest.Rig
	schema *contract.Schema

	mu   sync.Mutex
	says saying
	ids  []string // of the calls of the last turn
}

func newSpeaker(t *testing.T) *speaker {
	t.Helper()
	s := &speaker{}
	var err error
	s.schema, err = contract.Compile()
	require.NoError(t, err)
	s.Rig = apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ids = s.says.play(ctx, turn)
		return nil
	}}, func(o *apitest.Options) { o.BodyLimit, o.IdleTimeout = 16<<20, 4*apitest.Bound })
	s.Client.Timeout = 4 * apitest.Bound // the race detector makes much of a megabyte
	return s
}

// hears has the model say it, by every API in both ways, and compares what is
// heard.
func (s *speaker) hears(t *testing.T, says saying, q contract.Question) {
	t.Helper()
	s.mu.Lock()
	s.says = says
	s.mu.Unlock()
	q.Model = "demo"
	for _, api := range []contract.API{contract.Chat, contract.Responses, contract.Messages} {
		for _, q.Stream = range []bool{false, true} {
			body, err := api.Body(q)
			require.NoError(t, err)
			resp := s.Do(t, http.MethodPost, api.Path, string(body))
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode, "%.2000s", got)
			a, err := api.Judge(s.schema, q, got)
			require.NoError(t, err, "%s, stream %t", api.Name, q.Stream)
			text := says.text("")
			if api.Name == contract.Chat.Name {
				text = says.text("\n\n")
			}
			assert.True(t, text == a.Text, "%s, stream %t: text of %d bytes, not %d", api.Name, q.Stream,
				len(a.Text), len(text))
			assert.Equal(t, s.called(says, api), a.Calls)
			assert.Equal(t, 12, a.Tokens)
			assert.Nil(t, a.Failure)
			if !q.Reasoning && api.Name == contract.Chat.Name {
				assert.Empty(t, a.Reasoning, "nobody has asked for it")
			}
			if q.Reasoning {
				assert.Equal(t, squeezed(flat(says.reasoning)), squeezed(a.Reasoning))
			}
		}
	}
}

// called are the calls with the ids of the last turn. Anthropic's API has no place for
// arguments that are not JSON.
func (s *speaker) called(says saying, api contract.API) []contract.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := slices.Clone(says.calls)
	for i := range calls {
		calls[i].ID = s.ids[i]
		if api.Name == contract.Messages.Name && !json.Valid([]byte(calls[i].Arguments)) {
			calls[i].Arguments = fmt.Sprintf(`{"INVALID_JSON":%q}`, calls[i].Arguments)
		}
	}
	return calls
}

func flat(items [][]string) string {
	var b strings.Builder
	for _, chunks := range items {
		b.WriteString(strings.Join(chunks, ""))
	}
	return b.String()
}

// squeezed leaves the line breaks out: a chat puts some between paragraphs of
// reasoning.
func squeezed(s string) string { return strings.ReplaceAll(s, "\n", "") }

func offered(n int) (tools []contract.Tool) {
	for i := range n {
		tools = append(tools,
			contract.Tool{Name: fmt.Sprintf("tool_%d", i),
				Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)})
	}
	return tools
}

// Whatever a model says, the answer has OpenAI's form and the model's words.
func TestContractOfRandomAnswers(t *testing.T) {
	t.Parallel()
	s := newSpeaker(t)
	for seed := range uint64(nightly.Or(150, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			tools := offered(r.IntN(2) * 5)
			s.hears(t, randomSaying(r, tools),
				contract.Question{Prompt: "hello", Tools: tools, Reasoning: r.IntN(2) == 0})
		})
	}
}

func TestContractOfExtremes(t *testing.T) {
	t.Parallel()
	size := nightly.Or(1_000_000, 300_000)
	for name, tc := range map[string]struct {
		says saying
		q    contract.Question
	}{
		"nothing": {},
		"1-byte chunks": {says: saying{messages: [][]string{strings.Split(strings.Repeat("The quick brown fox. ",
			50), "")}}},
		"empty chunks": {says: saying{messages: [][]string{make([]string, 200), {"", "a", ""}}}},
		"long":         {says: saying{messages: [][]string{pieces(size, 8192)}}},
		"long, in one": {says: saying{messages: [][]string{pieces(size, size)}}},
		"long history": {says: saying{messages: [][]string{{"ok"}}},
			q: contract.Question{Prompt: strings.Repeat("é", size)}},
		"300 tools, 100 calls": {
			says: saying{calls: slices.Repeat([]contract.Call{{Name: "tool_299", Arguments: `{"x":"é"}`}}, 100)},
			q:    contract.Question{Tools: offered(300)},
		},
		"arguments of 200 kB": {
			says: saying{calls: []contract.Call{{Name: "tool_0",
				Arguments: `{"x":"` + strings.Repeat("é", 100_000) + `"}`}}},
			q: contract.Question{Tools: offered(1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.q.Prompt += "hello"
			newSpeaker(t).hears(t, tc.says, tc.q)
		})
	}
}

// pieces is text of n bytes in chunks.
func pieces(n, chunk int) []string {
	var list []string
	for ; n > 0; n -= chunk {
		list = append(list, strings.Repeat("x", min(n, chunk)))
	}
	return list
}

// Several choices are several answers, in their chunks as well.
func TestContractOfSeveralChoices(t *testing.T) {
	s := newSpeaker(t)
	s.says = saying{messages: [][]string{{"so ", "be", " it"}}}
	for _, stream := range []string{"", apitest.Streaming} {
		resp := s.Chatting(t, apitest.Hello(stream+`"n":3,`))
		body := apitest.Text(t, resp)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		answers, err := s.schema.Completion([]byte(body), 3)
		if stream != "" {
			answers, err = s.schema.ChatStream(bytes.NewReader([]byte(body)), 3)
		}
		require.NoError(t, err, body)
		for _, a := range answers {
			assert.Equal(t, "so be it", a.Text)
		}
	}
}

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/contract"
)

// modelFault is a failure of the model endpoint, and its result for a client: an error
// with a status, or, once a stream has delivered something, an error that ends it.
type modelFault struct {
	phase, name string
	steps       []string
	status      int    // of a whole answer
	kind, code  string // of the error
	text        string // the text of a stream before it fails
	calls       int    // how many calls it delivers
}

const (
	invalid     = "invalid_request_error"
	unavailable = "backend_unavailable"
)

var modelFaults = []modelFault{
	{"before the first byte", "400", []string{"error 400"}, 400, invalid, "invalid_value", "", 0},
	{"before the first byte", "401", []string{"error 401"}, 503, unavailable, "upstream_unauthorized", "", 0},
	{"before the first byte", "429", []string{"error 429"}, 429, "rate_limit_error", "rate_limited", "", 0},
	{"before the first byte", "500", []string{"error 500"}, 503, unavailable, "upstream_error", "", 0},
	{"before the first byte", "503", []string{"error 503"}, 503, unavailable, "upstream_error", "", 0},
	{"before the first byte", "no event stream", []string{"garbage"}, 503, unavailable, "upstream_error", "", 0},
	{"before the first byte", "cut", []string{"drop"}, 503, unavailable, "upstream_error", "", 0},
	{"before the first byte", "ended", []string{"end"}, 503, unavailable, "upstream_error", "", 0},
	{"before the first byte", "failed", []string{"failed server_error oops"}, 503, unavailable, "upstream_error", "",
		0},
	{"before the first byte", "rate limited", []string{"failed rate_limit_exceeded slow down"}, 429,
		"rate_limit_error", "rate_limited", "", 0},
	{"before the first byte", "plain 404", []string{"error 404 no page"}, 404, invalid, "upstream_not_found", "", 0},
	{"before the first byte", "usage limit", []string{"failed usage_limit_reached The usage limit has been reached"}, 429,
		"insufficient_quota", "usage_limit_reached", "", 0},
	{"before the first byte", "too long", []string{"failed context_length_exceeded too long"}, 400, invalid,
		"context_length_exceeded", "", 0},
	{"before the first byte", "no answer", []string{"hang"}, 504, "timeout_error", "idle_timeout", "", 0},
	{"before the first byte", "silence", []string{"silence"}, 504, "timeout_error", "idle_timeout", "", 0},

	{"mid-text", "cut", []string{"text so ", "text far", "drop"}, 503, unavailable, "upstream_error", "so far", 0},
	{"mid-text", "ended", []string{"text so far", "end"}, 503, unavailable, "upstream_error", "so far", 0},
	{"mid-text", "failed", []string{"text so far", "failed server_error oops"}, 503, unavailable, "upstream_error",
		"so far", 0},
	{"mid-text", "rate limited", []string{"text so far", "failed rate_limit_exceeded slow down"}, 429,
		"rate_limit_error", "rate_limited", "so far", 0},
	{"mid-text", "usage limit", []string{"text so far",
		"failed usage_limit_reached The usage limit has been reached"}, 429, "insufficient_quota", "usage_limit_reached",
		"so far", 0},
	{"mid-text", "silence", []string{"text so far", "silence"}, 504, "timeout_error", "idle_timeout", "so far", 0},

	{"mid-tool", "cut", []string{`calling get_weather {"ci`, "drop"}, 503, unavailable, "upstream_error", "", 0},
	{"mid-tool", "failed", []string{`calling get_weather {"ci`, "failed server_error oops"}, 503, unavailable,
		"upstream_error", "", 0},
	{"mid-tool", "silence", []string{`calling get_weather {"ci`, "silence"}, 504, "timeout_error", "idle_timeout", "",
		0},
	{"mid-tool", "cut after text", []string{"text so far", `calling get_weather {"ci`, "drop"}, 503, unavailable,
		"upstream_error", "so far", 0},
	{"mid-tool", "cut in the second", []string{`call get_weather {"city":"Paris"}`, `calling get_weather {"ci`,
		"drop"}, 503, unavailable, "upstream_error", "", 1},

	{"after the finish", "cut", []string{"text all of it", "completed", "drop"}, 200, "", "", "all of it", 0},
	{"after the finish", "silence", []string{"text all of it", "completed", "silence"}, 200, "", "", "all of it", 0},
	{"after the finish", "cut, with a call", []string{`call get_weather {"city":"Paris"}`, "completed", "drop"}, 200,
		"", "", "", 1},
}

// way is how a client receives an answer.
type way string

const (
	whole    way = "whole"
	streamed way = "streamed"
	socket   way = "socket" // on a WebSocket
)

// faultCase is a fault in one kind of request.
type faultCase struct {
	modelFault
	api contract.API
	way way
	got chan reply
}

// faultCases are all faults in all kinds of request.
func faultCases() (cases []faultCase) {
	for _, api := range []contract.API{contract.Chat, contract.Responses, contract.Messages} {
		for _, way := range []way{whole, streamed, socket} {
			if way == socket && api.Name != contract.Responses.Name {
				continue
			}
			for _, fault := range modelFaults {
				cases = append(cases, faultCase{fault, api, way, make(chan reply, 1)})
			}
		}
	}
	return cases
}

// reply is the answer to a client.
type reply struct {
	status int
	silent time.Duration // before the header
	header http.Header
	body   []byte
	asked  int // requests to the endpoint
	err    error
}

// A failure of the model endpoint reaches the client once, with its own error: before
// the first byte as a status, after it in the stream; never as a hang and never as a
// complete answer. On a WebSocket the first byte comes with the start of the turn.
func TestModelFaults(t *testing.T) {
	t.Parallel()
	b := bed.New(t, "trixie", bed.RealWorker, "idle_timeout = \"10s\"\nmax_inflight = 64\n")
	b.Start()
	schema, err := contract.Compile()
	require.NoError(t, err)
	cases := faultCases()
	for _, c := range cases {
		if c.slow() { // they wait in parallel, while the others are tried
			go func() { c.got <- meet(b, t.Context(), c) }()
		}
	}
	for _, c := range cases {
		t.Run(c.title(), func(t *testing.T) {
			if !c.slow() {
				c.got <- meet(b, t.Context(), c)
			}
			c.judge(t, schema, <-c.got)
		})
	}
	t.Run("the worker is none the worse", func(t *testing.T) {
		status, _, body := b.Chat(false, "[[text fine]]")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, "fine")
		assert.Equal(t, "0", b.Properties(bed.WorkerUnit, "NRestarts")["NRestarts"])
	})
}

// slow reports whether the fault takes long: the silence of an endpoint does, and so does
// a failure that an open call hides (appserver.Options.CallPatience).
func (c faultCase) slow() bool {
	return c.code == "idle_timeout" || c.calls > 0 && c.status != http.StatusOK
}

func (c faultCase) title() string {
	return strings.Join([]string{c.api.Name, string(c.way), c.phase, c.name}, "/")
}

// prompt is a prompt that meets the fault; word stands in it.
func (c faultCase) prompt(word string) string {
	return word + ": [[" + strings.Join(c.steps, "]] [[") + "]]"
}

// meet sends a request, with a tool, that meets the fault.
func meet(b *bed.Bed, ctx context.Context, c faultCase) reply {
	send := func(ctx context.Context, api contract.API, q contract.Question) (r reply) { return put(b, ctx, api, q) }
	if c.way == socket {
		send = func(ctx context.Context, api contract.API, q contract.Question) (r reply) {
			return putOnSocket(b, ctx, api, q)
		}
	}
	r := send(ctx, c.api, contract.Question{
		Model: bed.Model, Prompt: c.prompt(c.title()), Stream: c.way != whole,
		Tools: []contract.Tool{{Name: "get_weather",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
	})
	r.asked = len(bed.TurnsWith(b, `"`+c.title()+":"))
	return r
}

// put sends a request to the service, and may be called from any goroutine.
func put(b *bed.Bed, ctx context.Context, api contract.API, q contract.Question) (r reply) {
	ctx, cancel := context.WithTimeout(ctx, bed.Bound)
	defer cancel()
	body, err := api.Body(q)
	if err != nil {
		return reply{err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+api.Path, bytes.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if api.Name == contract.Messages.Name {
		req.Header.Set("Anthropic-Version", bed.AnthropicVersion)
	}
	began := time.Now()
	res, err := b.HTTP.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	r.silent = time.Since(began)
	r.status, r.header = res.StatusCode, res.Header
	r.body, r.err = io.ReadAll(res.Body)
	return r
}

// begun reports whether a stream has sent something before it fails.
func (c faultCase) begun() bool {
	early := c.api.Name == contract.Responses.Name && c.code == "idle_timeout" // the first events of a long silence
	return c.way == streamed && (c.text != "" || c.calls > 0 || early)
}

// untilOpened is the silence of a turn after which a streamed response sends its first events.
const untilOpened = 2 * time.Second

// opens reports whether the case is a stream that sends its first events after a silence: on a busy machine an error
// may come later than that.
func (c faultCase) opens() bool {
	return c.api.Name == contract.Responses.Name && c.way == streamed && c.status != http.StatusOK
}

func (c faultCase) judge(t *testing.T, schema *contract.Schema, r reply) {
	t.Helper()
	require.NoError(t, r.err)
	assert.Equal(t, 1, r.asked, "requests at the endpoint")
	begun := c.begun()
	if c.way == socket { // the first events come with the start of the turn, unless the endpoint is faster
		begun = r.status == http.StatusOK
	}
	if c.opens() && r.silent >= untilOpened {
		begun = begun || r.status == http.StatusOK
	}
	if c.status != http.StatusOK && !begun {
		c.judgeStatus(t, schema, r)
		return
	}
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	answer, err := c.api.Judge(schema, contract.Question{Stream: c.way != whole}, r.body)
	require.NoError(t, err, "%s", r.body)
	assert.Equal(t, c.text, answer.Text)
	assert.Len(t, answer.Calls, c.calls)
	if c.status == http.StatusOK {
		assert.Nil(t, answer.Failure)
		assert.True(t, answer.Done || c.way == whole || c.api.Name == contract.Responses.Name)
		return
	}
	require.NotNil(t, answer.Failure, "%s", r.body)
	assert.False(t, answer.Done)
	if c.api.Name == contract.Messages.Name {
		assert.Equal(t, c.kindInMessages(), answer.Failure.Type)
		return
	}
	assert.Equal(t, c.codeIn(), answer.Failure.Code)
	if c.api.Name == contract.Chat.Name {
		assert.Equal(t, c.kind, answer.Failure.Type)
		return
	}
	if c.way == socket {
		assert.Nil(t, answer.Alert, "an end of its own")
		return
	}
	require.NotNil(t, answer.Alert, "%s", r.body)
	assert.Equal(t, c.kind, answer.Alert.Type)
}

// codeIn is the error code in a stream: a response has the codes of OpenAI.
func (c faultCase) codeIn() string {
	switch {
	case c.api.Name == contract.Chat.Name:
		return c.code
	case c.code == "rate_limited":
		return "rate_limit_exceeded"
	case c.code == "usage_limit_reached":
		return "insufficient_quota"
	case c.code == "context_length_exceeded":
		return c.code
	case c.kind == invalid:
		return "invalid_prompt"
	default:
		return "server_error"
	}
}

// kindInMessages is the type of the error in Anthropic's form, in which every type has one status.
func (c faultCase) kindInMessages() string {
	switch c.status {
	case http.StatusBadRequest:
		return invalid
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	default:
		return "overloaded_error"
	}
}

// judgeMessagesStatus judges an error of the Messages API: the type alone says what went wrong.
func (c faultCase) judgeMessagesStatus(t *testing.T, schema *contract.Schema, r reply) {
	t.Helper()
	status := c.status
	if status == http.StatusServiceUnavailable {
		status = bed.Overloaded
	}
	assert.Equal(t, status, r.status, "%s", r.body)
	failure, err := schema.MessagesError(r.body, r.status)
	require.NoError(t, err)
	assert.Equal(t, c.kindInMessages(), failure.Type)
	assert.NotEmpty(t, r.header.Get("Request-Id"))
	if r.status == http.StatusTooManyRequests || r.status == bed.Overloaded {
		assert.Positive(t, bed.Seconds(t, r.header.Get("Retry-After")))
	}
}

func (c faultCase) judgeStatus(t *testing.T, schema *contract.Schema, r reply) {
	t.Helper()
	if c.api.Name == contract.Messages.Name {
		c.judgeMessagesStatus(t, schema, r)
		return
	}
	assert.Equal(t, c.status, r.status, "%s", r.body)
	require.NoError(t, schema.Check(contract.Error, r.body))
	var e struct{ Error contract.Failure }
	require.NoError(t, json.Unmarshal(r.body, &e))
	assert.Equal(t, c.kind, e.Error.Type)
	assert.Equal(t, c.code, e.Error.Code)
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		assert.Positive(t, bed.Seconds(t, r.header.Get("Retry-After")))
	}
}

package proxy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"codex-proxy/codex/turnerror"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "<html><head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>no</h1></center></body></html>"

// failedTurns are texts of codex 0.169 and what a client sees of them.
var failedTurns = []struct {
	name, info, text     string
	status               int
	code, param, message string
	retryAfter           time.Duration
}{
	{"400 of JSON", `"other"`, `{"error": {"message": "Bad\u0000 value", "type": "x", "param": "tools[0].name",` +
		` "code": "invalid_value"}}`, 400, "invalid_value", "tools[0].name", "Bad value", 0},
	{"400 of JSON in JSON", `"other"`, `{"error":{"message":"{\"error\":{\"message\":\"Bad value\",\"code\":\"bad\"}}",` +
		`"code":"gateway"}}`, 400, "bad", "", "Bad value", 0},
	{"400 of a list", `"other"`, `[{"error":{"message":"Bad value","code":400}}]`, 400, "upstream_rejected", "",
		"Bad value", 0},
	{"400 with detail", `"other"`, `{"detail":"Unsupported parameter: x"}`, 400, "upstream_rejected", "",
		"Unsupported parameter: x", 0},
	{"400 with a bad code", `"other"`, `{"error":{"message":"m","code":"a b"}}`, 400, "upstream_rejected", "", "m", 0},
	{"400 with a number", `"other"`, `{"error":{"message":"m","code":400,"param":1}}`, 400, "upstream_rejected", "",
		"m", 0},
	{"400 cut off", `"other"`, `{"error":{"message":"mmm`, 400, "upstream_rejected", "",
		"the model endpoint answers with 400 Bad Request", 0},
	{"400 plain", `"other"`, "plain words", 400, "upstream_rejected", "", "plain words", 0},
	{"400 of HTML", `"other"`, page, 400, "upstream_rejected", "", "502 Bad Gateway", 0},
	{"400 empty", `"other"`, "", 400, "upstream_rejected", "", "the model endpoint answers with 400 Bad Request", 0},
	{"400 too long", `"other"`, `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":400}}`,
		400, "context_length_exceeded", "messages", "", 0},
	{"content policy", `"other"`, "rejected as a result of our safety system", 400, "content_policy_violation",
		"messages", "rejected as a result of our safety system", 0},
	{"bio policy", `"bioPolicy"`, "This content was flagged.", 400, "content_policy_violation", "messages",
		"This content was flagged.", 0},
	{"misalignment policy", `"misalignmentPolicyViolation"`, "", 400, "content_policy_violation", "messages",
		"the model endpoint refuses the content", 0},
	{"inference hook", `"inferenceHookDenied"`, "", 400, "content_policy_violation", "messages",
		"the workspace of the worker's account denies the request", 0},
	{"denials", `"tooManyDenials"`, "", 400, "upstream_rejected", "",
		"codex denied too many actions of the model in this turn", 0},
	{"flex", `"flexUnavailable"`, "", 503, "overloaded", "", "", 5 * time.Second},
	{"unknown", `"somethingNew"`, "", 400, "upstream_rejected", "", "codex ended the turn: somethingNew", 0},
	{"unknown, an object", `{"somethingNew":{"why":"x"}}`, "No.", 400, "upstream_rejected", "", "No.", 0},
	{"unknown, temporary", `{"somethingNew":{"httpStatusCode":503}}`, "Wait.", 503, "upstream_error", "", "Wait.",
		5 * time.Second},
	{"404 plain", `{"httpConnectionFailed":{"httpStatusCode":404}}`, "unexpected status 404 Not Found: 404 page not " +
		"found, url: http://127.0.0.1:33807/v1/responses, cf-ray: 8abc-FRA, request id: req_abc123", 404,
		"upstream_not_found", "", "404 page not found", 0},
	{"404 model", `"modelNotFound"`, "The model `x` does not exist", 404, "model_not_found", "model",
		"The model `x` does not exist", 0},
	{"401", `{"httpConnectionFailed":{"httpStatusCode":401}}`, "unexpected status 401 Unauthorized: Incorrect API key " +
		"provided: sk-x, url: http://127.0.0.1:1/v1/responses", 503, "upstream_unauthorized", "", "", time.Minute},
	{"402", `{"httpConnectionFailed":{"httpStatusCode":402}}`, "unexpected status 402 Payment Required: no credits, " +
		"url: http://127.0.0.1:1/v1/responses", 429, "usage_limit_reached", "", "", time.Minute},
	{"405", `{"httpConnectionFailed":{"httpStatusCode":405}}`, "unexpected status 405 Method Not Allowed: , url: http://x",
		400, "upstream_rejected", "", "the model endpoint answers with 405 Method Not Allowed", 0},
	{"409", `{"httpConnectionFailed":{"httpStatusCode":409}}`, "unexpected status 409 Conflict: wait, url: http://x",
		503, "upstream_error", "", "wait", 5 * time.Second},
	{"429", `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`, "exceeded retry limit, last status: 429 Too Many " +
		"Requests, request id: req_abc123", 429, "rate_limited", "", "Rate limit reached: the model endpoint limits the " +
		"rate of requests. Please try again in 10s.", 10 * time.Second},
	{"429 usage limit", `"usageLimitExceeded"`, "You’ve hit your usage limit. Upgrade to Pro (https://example.com/pro), " +
		"or try again at Mar 17th, 2030 5:46 PM.", 429, "usage_limit_reached", "", "You exceeded your current quota, " +
		"please check your plan and billing details: the worker's account has reached its usage limit; try again at " +
		"Mar 17th, 2030 5:46 PM", time.Minute},
	{"500", `"internalServerError"`, "We’re currently experiencing high demand, which may cause temporary errors.", 503,
		"upstream_error", "", "the model endpoint cannot be reached, or failed; send the request again",
		5 * time.Second},
	{"502 of HTML", `{"httpConnectionFailed":{"httpStatusCode":502}}`, "unexpected status 502 Bad Gateway: " + page +
		", url: http://127.0.0.1:33807/v1/responses, request id: r", 503, "upstream_error", "", "502 Bad Gateway",
		5 * time.Second},
	{"no connection", `{"httpConnectionFailed":{"httpStatusCode":null}}`, "Connection failed: error sending request", 503,
		"upstream_error", "", "the model endpoint cannot be reached, or failed; send the request again",
		5 * time.Second},
	{"stream: usage limit", `"other"`, broken + "The usage limit has been reached", 429, "usage_limit_reached", "",
		"You exceeded your current quota, please check your plan and billing details: The usage limit has been reached",
		time.Minute},
	{"stream: rate limit", `"rateLimitExceeded"`, "rate limit exceeded: Rate limit reached for gpt. Please try again in " +
		"1.2s.", 429, "rate_limited", "", "Rate limit reached for gpt. Please try again in 1.2s.", 2 * time.Second},
	{"stream: slow down", `"rateLimitExceeded"`, "rate limit exceeded: slow down", 429, "rate_limited", "",
		"Rate limit reached: slow down. Please try again in 10s.", 10 * time.Second},
	{"stream: server error", `"other"`, broken + "An error occurred, see https://help.example.com/x.", 503,
		"upstream_error", "", "An error occurred, see [address].", 5 * time.Second},
	{"stream: no words", `"other"`, broken + `{"error":{"type":"x"}}`, 503, "upstream_error", "",
		"the model endpoint reports an error in its answer; send the request again", 5 * time.Second},
	{"stream: cut", `"other"`, broken + "Transport error: network error: error decoding response body", 503,
		"upstream_error", "", "the model endpoint broke the answer off; send the request again", 5 * time.Second},
	{"stream: ended", `"other"`, broken + "stream closed before response.completed", 503, "upstream_error", "",
		"the model endpoint broke the answer off; send the request again", 5 * time.Second},
	{"stream: not opened", `"other"`, broken + "error sending request for url (http://127.0.0.1:1/v1)", 503,
		"upstream_error", "", "the model endpoint cannot be reached; send the request again", 5 * time.Second},
	{"accounts' server: not reached", `"other"`, "workspace routing discovery failed", 503, "upstream_error", "",
		"the model endpoint cannot be reached; send the request again", 5 * time.Second},
	{"accounts' server: silent", `"other"`, "workspace routing discovery timed out", 503, "upstream_error", "",
		"the model endpoint cannot be reached; send the request again", 5 * time.Second},
	{"stream: silent", `"other"`, broken + "idle timeout waiting for SSE", 504, "idle_timeout", "",
		"the model endpoint sent nothing for too long", 0},
}

const broken = "stream disconnected before completion: "

// A client sees the endpoint's own words, and neither an address nor the form of codex or of the endpoint.
func TestWordsOfTheModelEndpoint(t *testing.T) {
	for _, tc := range failedTurns {
		t.Run(tc.name, func(t *testing.T) {
			failed := &turnerror.Error{Message: tc.text}
			require.NoError(t, json.Unmarshal([]byte(tc.info), &failed.Info))
			e := turnError(failed, "messages")
			assert.Equal(t, tc.status, e.Status)
			assert.Equal(t, tc.param, e.Param)
			assert.Equal(t, tc.retryAfter, e.RetryAfter)
			if tc.message != "" {
				assert.Equal(t, tc.message, e.Message)
			}
			assert.NotRegexp(t, `http:|req_abc|cf-ray|[<{]|sk-x|\p{Cc}`, e.Message)
			data, err := json.Marshal(e)
			require.NoError(t, err)
			assert.Contains(t, string(data), `"code":"`+tc.code+`"`)
			assert.Equal(t, tc.status == 503, e.Retryable())
		})
	}
}

// Words that begin like JSON are words.
func TestWordsInBraces(t *testing.T) {
	e := turnError(&turnerror.Error{Message: `{"error":{"message":"{x} is required"}}`,
		Info: turnerror.Info{Kind: turnerror.KindOther}}, "messages")
	assert.Equal(t, "{x} is required", e.Message)
}

// The metrics have a label with the code, so it is never the endpoint's.
func TestTheCodeOfTheEndpointIsNoLabel(t *testing.T) {
	x := &Exchange{}
	answer := (&envelope{}).outcome(x, &turnerror.Error{
		Message: `{"error":{"message":"m","code":"made_up"}}`, Info: turnerror.Info{Kind: "other"}})
	assert.Equal(t, "made_up", answer.UpstreamCode)
	assert.Equal(t, "upstream_rejected", x.Outcome)
}

// The journal has codex's text within a bound, without a key, and without words that may quote the request.
func TestDetailOfAFailedTurn(t *testing.T) {
	logged := func(status int, text string) (detail string) {
		x := &Exchange{}
		require.NotNil(t, (&envelope{}).outcome(x, &turnerror.Error{Message: text,
			Info: turnerror.Info{Kind: "httpConnectionFailed", HTTPStatus: status}}))
		for _, a := range attributes("POST", x) {
			if a.Key == "detail" {
				detail = a.Value.String()
			}
		}
		return detail
	}
	const where = ", url: http://h/v1, request id: r"
	assert.Equal(t, "unexpected status 401 Unauthorized: not sk-…"+where,
		logged(401, "unexpected status 401 Unauthorized: not sk-abcdefgh"+where))
	assert.Equal(t, "unexpected status 502 Bad Gateway"+where,
		logged(502, "unexpected status 502 Bad Gateway: "+page+where))
	assert.Equal(t, "stream disconnected before completion",
		logged(0, "stream disconnected before completion: no xyzzy"))
	assert.Equal(t, "stream disconnected before completion: stream closed before response.completed",
		logged(0, "stream disconnected before completion: stream closed before response.completed"))
	assert.Equal(t, "unexpected status 422 Unprocessable Entity"+where,
		logged(422, "unexpected status 422 Unprocessable Entity: no xyzzy"+where))
	assert.Empty(t, logged(422, "no xyzzy"))
	long := logged(401, strings.Repeat("é", maxDetail))
	assert.LessOrEqual(t, len(long), maxDetail)
	assert.NotContains(t, long, "\ufffd")
}

func TestRetryIn(t *testing.T) {
	for words, want := range map[string]time.Duration{
		"Please try again in 1.2s.":     2 * time.Second,
		"Please try again in 6m0s.":     6 * time.Minute,
		"try again in 250ms":            time.Second,
		"try again in 20 seconds":       20 * time.Second,
		"retry after 1 second":          time.Second,
		"try again in 999h":             time.Hour,
		"try again in 99999999999999h":  9 * time.Second,
		"try again later, in 5 minutes": 9 * time.Second,
	} {
		assert.Equal(t, want, retryIn(words, 9*time.Second), words)
	}
}

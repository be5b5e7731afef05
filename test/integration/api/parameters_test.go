package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// effect is what a parameter does to the request to the model endpoint, or to the answer.
type effect struct {
	value string // of the parameter
	// sent is a part of the request to the endpoint, with all white space removed; without it the request has nothing of
	// the parameter.
	sent string
	// answered is a part of the answer, without white space.
	answered string
}

// ruled is a row of the tables of parameters in docs/api.md.
var ruled = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (honoured|ignored|refused) \\|")

// documented reads a table of parameters: by name, its rule.
func documented(t *testing.T, table string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "api.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "<!-- "+table+": ")
	require.True(t, ok)
	rest, _, ok = strings.Cut(rest, "<!-- end of "+table+" -->")
	require.True(t, ok)
	rules := map[string]string{}
	for _, row := range ruled.FindAllStringSubmatch(rest, -1) {
		rules[row[1]] = row[2]
	}
	require.NotEmpty(t, rules)
	return rules
}

const (
	oneFunction  = `[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
	flatFunction = `[{"type":"function","name":"f"},{"type":"function","name":"g"}]`
	messageTools = `[{"name":"f","input_schema":{"type":"object"}}]`
	strictForm   = `"schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}`
)

// chatEffects are the effects of the honoured parameters of a chat completion. A parameter with several values has one
// effect for each.
var chatEffects = map[string][]effect{
	"messages":         {{value: `[{"role":"user","content":"the question"}]`, sent: "thequestion"}},
	"stream":           {{value: `true`, answered: "data:[DONE]"}},
	"stream_options":   {{value: `{"include_usage":true}`, answered: `"usage":`}},
	"reasoning_effort": {{value: `"high"`, sent: `"effort":"high"`}, {value: `"none"`, sent: `"effort":"none"`}},
	"reasoning": {{value: `{"effort":"high"}`, sent: `"effort":"high"`},
		{value: `{"summary":"detailed"}`, sent: `"summary":"detailed"`},
		{value: `{"enabled":true}`, sent: `"summary":"auto"`},
		{value: `{"enabled":false}`, sent: `"effort":"none"`},
		{value: `{"max_tokens":2000}`, sent: `2000`}},
	"n": {{value: `2`, answered: `"index":1`}},
	"response_format": {
		{value: `{"type":"json_schema","json_schema":{"name":"a","strict":true,` + strictForm + `}}`,
			sent: `"additionalProperties":false`},
		{value: `{"type":"json_object"}`, sent: "onevalidJSONobject"}},
	"modalities":          {{value: `["text"]`, answered: `"content":"`}},
	"tools":               {{value: oneFunction, sent: `"name":"f"`}},
	"tool_choice":         {{value: `"required"`, sent: "mustbeacall"}},
	"parallel_tool_calls": {{value: `false`, sent: "atmostonefunction"}},
	"functions":           {{value: `[{"name":"f"}]`, sent: `"name":"f"`}},
	"function_call":       {{value: `{"name":"f"}`, sent: "mustbeacall"}},
	"service_tier": {{value: `"flex"`, sent: `"service_tier":"flex"`},
		{value: `"priority"`, sent: `"service_tier":"priority"`}, {value: `"fast"`, sent: `"service_tier":"priority"`},
		{value: `"scale"`, sent: `"service_tier":"scale"`}, {value: `"auto"`}, {value: `"default"`}},
	"verbosity": {{value: `"high"`, sent: `"verbosity":"high"`}, {value: `"low"`, sent: `"verbosity":"low"`}},
	"stop":      {{value: `"model"`, answered: `"content":"hellofromthe"`}},
}

// responseEffects are those of a response.
var responseEffects = map[string][]effect{
	"input":               {{value: `"the question"`, sent: "thequestion"}},
	"instructions":        {{value: `"be brief"`, sent: "bebrief"}},
	"stream":              {{value: `true`, answered: "response.completed"}},
	"tools":               {{value: flatFunction, sent: `"name":"f"`}},
	"tool_choice":         {{value: `"required"`, sent: "mustbeacall"}},
	"parallel_tool_calls": {{value: `false`, sent: "atmostonefunction"}},
	"text": {
		{value: `{"format":{"type":"json_schema","name":"a","strict":true,` + strictForm + `}}`,
			sent: `"additionalProperties":false`},
		{value: `{"verbosity":"high"}`, sent: `"verbosity":"high"`}},
	"service_tier": {{value: `"flex"`, sent: `"service_tier":"flex"`},
		{value: `"priority"`, sent: `"service_tier":"priority"`}, {value: `"fast"`, sent: `"service_tier":"priority"`}},
	"reasoning": {{value: `{"effort":"high"}`, sent: `"effort":"high"`},
		{value: `{"summary":"detailed"}`, sent: `"summary":"detailed"`}, {value: `{"mode":"standard"}`, sent: `"mode"`}},
	"metadata": {{value: `{"a":"b"}`, answered: `"metadata":{"a":"b"}`}},
	"include": {{value: `["reasoning.encrypted_content"]`, answered: `"encrypted_content":"`},
		{value: `["web_search_call.results"]`, sent: "web_search_call"}},
	"store":                {{value: `false`, answered: `"store":false`}},
	"previous_response_id": {{value: `"PREVIOUS"`, sent: "thefirstquestion"}},
	"conversation":         {{value: `"CONVERSATION"`, sent: "thefirstquestion"}},
	"background":           {{value: `false`, answered: `"background":false`}}, // true: TestBackground
	"truncation": {{value: `"disabled"`, answered: `"truncation":"disabled"`},
		{value: `"auto"`, sent: `"truncation":"auto"`}},
}

// messageEffects are those of a message of Anthropic's API.
var messageEffects = map[string][]effect{
	"messages": {{value: `[{"role":"user","content":"the question"}]`, sent: "thequestion"}},
	"system":   {{value: `"be brief"`, sent: "bebrief"}},
	"stream":   {{value: `true`, answered: "event:message_stop"}},
	"output_config": {{value: `{"effort":"high"}`, sent: `"effort":"high"`},
		{value: `{"format":{"type":"json_schema",` + strictForm + `}}`, sent: `"additionalProperties":false`}},
	"output_format":  {{value: `{"type":"json_schema",` + strictForm + `}`, sent: `"additionalProperties":false`}},
	"service_tier":   {{value: `"auto"`}, {value: `"standard_only"`}},
	"safeguards":     {{value: `[{"type":"dangerous_tool_use"}]`}},
	"speed":          {{value: `"fast"`, sent: `"service_tier":"priority"`}, {value: `"standard"`}},
	"stop_sequences": {{value: `["model"]`, answered: `"stop_sequence":"model"`}},
	"thinking": {{value: `{"type":"enabled","budget_tokens":2000}`, sent: `"effort":"low"`, answered: `"thinking":"hm"`},
		{value: `{"type":"disabled"}`, sent: `"effort":"none"`}},
	"tools":       {{value: messageTools, sent: `"name":"f"`}},
	"tool_choice": {{value: `{"type":"any"}`, sent: "mustbeacall"}},
}

// completionEffects are those of a legacy completion.
var completionEffects = map[string][]effect{
	"prompt":         {{value: `"the question"`, sent: "thequestion"}},
	"stream":         {{value: `true`, answered: "data:[DONE]"}},
	"stream_options": {{value: `{"include_usage":true}`, answered: `"usage":`}},
	"n":              {{value: `2`, answered: `"index":1`}},
	"best_of":        {{value: `1`, answered: `"text":"`}},
	"echo":           {{value: `true`, answered: `"text":"hihello`}},
	"stop":           {{value: `"model"`, answered: `"text":"hellofromthe"`}},
}

// needs are the parameters without which others are refused.
var needs = map[string]string{
	"tool_choice": `"tools":` + oneFunction, "parallel_tool_calls": `"tools":` + oneFunction,
	"function_call": `"functions":[{"name":"f"}]`, "stream_options": `"stream":true`,
}

// Every parameter of a request has its documented effect, or is in the header, or is refused: for models that codex
// knows, and for others.
func TestParameters(t *testing.T) {
	t.Parallel()
	b := bed.New(t, bed.Newest, bed.RealWorker+"models = [\""+reasoner+"\", \"gpt-daybreak-blue-latest\"]\n", "")
	b.Start()
	require.NoError(t, b.Models.Add(modelserver.Script{Times: -1,
		Steps: []string{"reasoning hm", "text hello from the ", "text model server", "usage 21 8 13 5"}}))
	for _, model := range []string{reasoner, "gpt-daybreak-blue-latest", bed.Model} {
		t.Run("chat/"+model, func(t *testing.T) {
			for name, rule := range documented(t, "parameters") {
				body := map[string]string{"model": `"` + model + `"`, "messages": `[{"role":"user","content":"hi"}]`}
				checkParameter(b, t, bed.ChatPath, name, rule, body, chatEffects[name])
			}
		})
		t.Run("responses/"+model, func(t *testing.T) {
			for name, rule := range documented(t, "parameters of responses") {
				body := map[string]string{"model": `"` + model + `"`, "input": `"hi"`}
				checkParameter(b, t, bed.ResponsesPath, name, rule, body, responseEffects[name])
			}
		})
		t.Run("messages/"+model, func(t *testing.T) {
			for name, rule := range documented(t, "parameters of messages") {
				body := map[string]string{"model": `"` + model + `"`, "max_tokens": "1024",
					"messages": `[{"role":"user","content":"hi"}]`}
				checkParameter(b, t, messagesPath, name, rule, body, messageEffects[name])
			}
		})
		t.Run("completions/"+model, func(t *testing.T) {
			for name, rule := range documented(t, "parameters of completions") {
				body := map[string]string{"model": `"` + model + `"`, "prompt": `"hi"`}
				checkParameter(b, t, completionsPath, name, rule, body, completionEffects[name])
			}
		})
	}
}

// ignoredValues are values of ignored parameters.
var ignoredValues = map[string]string{
	"store": `true`, "metadata": `{"user_id":"u"}`, "user": `"u"`, "safety_identifier": `"s"`, "prompt_cache_key": `"p"`,
	"prompt_cache_retention": `"24h"`, "prompt_cache_options": `{"mode":"explicit"}`,
	"prediction": `{"type":"content","content":"hi"}`, "stream_options": `{"include_obfuscation":false}`,
	"client_metadata": `{"a":"b"}`, "max_output_tokens": `16`, "cache_control": `{"type":"ephemeral"}`,
	"context_management": `[{"type":"compaction","compact_threshold":100000}]`, "betas": `["b"]`, "fallbacks": `[{"model":"m"}]`,
	messagesPath + " context_management": `{"edits":[]}`, "image": `{"context_compression":"auto"}`,
	"background_options": `{"completion_window":"soonest"}`,
}

// checkParameter sends a request with the parameter for each of its values.
func checkParameter(b *bed.Bed, t *testing.T, path, name, rule string, body map[string]string, effects []effect) {
	t.Helper()
	switch {
	case name == "model" || name == "generate": // of every request; of a WebSocket
		return
	case rule == "ignored":
		value := cmp.Or(ignoredValues[path+" "+name], ignoredValues[name], "1")
		effects = []effect{{value: value, sent: `"` + name + `":` + value}}
	case rule == "refused":
		effects = []effect{{value: `{"x":"y"}`}}
	}
	require.NotEmpty(t, effects, "give this test a value of %s", name)
	for _, e := range effects {
		checkEffect(b, t, path, name, rule, body, e)
	}
}

func checkEffect(b *bed.Bed, t *testing.T, path, name, rule string, given map[string]string, e effect) {
	t.Helper()
	switch name {
	case "previous_response_id":
		e.value = firstResponse(b, t, given["model"], "")
	case "conversation":
		e.value = conversation(b, t)
		firstResponse(b, t, given["model"], `,"conversation":`+e.value)
	}
	status, header, answer, sent := sendWith(b, t, path, name, given, e.value)
	what := fmt.Sprintf("%s %s=%s of %s", path, name, e.value, given["model"])
	if rule == "refused" {
		assert.Equal(t, http.StatusBadRequest, status, what)
		if path == messagesPath { // Anthropic's errors have no param
			assert.Contains(t, answer, name, what)
		} else {
			assert.Contains(t, answer, `"param":"`+name+`"`, what)
		}
		return
	}
	require.Equal(t, http.StatusOK, status, "%s: %s", what, answer)
	reported := slices.ContainsFunc(strings.Split(header.Get("X-Codex-Ignored-Params"), ", "), func(p string) bool {
		return p == name || strings.HasPrefix(p, name+".")
	})
	reached := e.sent == "" || strings.Contains(sent, e.sent)
	if e.answered != "" {
		reached = reached && strings.Contains(strings.Join(strings.Fields(answer), ""), e.answered)
	}
	assert.NotEqual(t, reached, reported, "%s: it has its effect, or is in the header\n%v\n%s\n%s", what,
		header.Get("X-Codex-Ignored-Params"), sent, answer)
	if rule == "ignored" {
		assert.True(t, reported, what)
	}
}

// sendWith sends a request with the parameter, and returns what reached the endpoint, without white space.
func sendWith(b *bed.Bed, t *testing.T, path, name string, given map[string]string, value string) (status int,
	header http.Header, answer, sent string) {
	t.Helper()
	parameters := []string{fmt.Sprintf("%q:%s", name, value)}
	switch path {
	case bed.ResponsesPath:
		parameters = append(parameters, strings.ReplaceAll(needs[name], oneFunction, flatFunction))
	case messagesPath:
		parameters = append(parameters, strings.ReplaceAll(needs[name], oneFunction, messageTools))
	default:
		parameters = append(parameters, needs[name])
	}
	for other, v := range given {
		if other != name {
			parameters = append(parameters, fmt.Sprintf("%q:%s", other, v))
		}
	}
	if path == bed.ResponsesPath && name == "stream_options" || name == "previous_response_id" {
		parameters = slices.DeleteFunc(parameters, func(p string) bool { return p == `"stream":true` })
	}
	parameters = slices.DeleteFunc(parameters, func(p string) bool { return p == "" })
	before := len(b.Models.Turns())
	status, header, answer = postJSON(b, t, path, "{"+strings.Join(parameters, ",")+"}")
	for _, turn := range b.Models.Turns()[before:] {
		sent += strings.Join(strings.Fields(string(turn.Body.Raw)), "")
	}
	return status, header, answer, sent
}

// firstResponse makes a response, with more parameters, and returns its id in quotes.
func firstResponse(b *bed.Bed, t *testing.T, model, more string) string {
	t.Helper()
	return made(b, t, bed.ResponsesPath, `{"model":`+model+`,"input":"the first question"`+more+`}`)
}

// conversation makes a conversation, and returns its id in quotes.
func conversation(b *bed.Bed, t *testing.T) string {
	t.Helper()
	return made(b, t, "/v1/conversations", `{}`)
}

// made is the id, in quotes, of what a request makes.
func made(b *bed.Bed, t *testing.T, path, body string) string {
	t.Helper()
	status, _, answer := postJSON(b, t, path, body)
	require.Equal(t, http.StatusOK, status, answer)
	var made struct{ ID json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(answer), &made))
	return string(made.ID)
}

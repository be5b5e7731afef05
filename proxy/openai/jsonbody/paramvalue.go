package jsonbody

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// value describes the values of a parameter; null is always one.
type value struct {
	kind     string   // as in words: a number, a whole number, a boolean, text, an object, a list, metadata
	min, max float64  // of a number
	length   int      // of text, in characters; 0: any
	words    []string // of text: the values that exist
}

func number(least, most float64) value { return value{kind: "a number", min: least, max: most} }

// atLeast is a whole number.
func atLeast(least float64) value {
	return value{kind: "a whole number", min: least, max: math.MaxInt64}
}

func text(length int) value { return value{kind: "text", length: length} }

func oneOf(words ...string) value { return value{kind: "text", words: words} }

// paramValues has the types and ranges of ignored parameters, which have no other use than in a copy for the client.
// Source: OpenAI API reference; the least max_output_tokens is the one that its API states in an error.
var paramValues = map[string]value{
	"temperature":            number(0, 2),
	"top_p":                  number(0, 1),
	"presence_penalty":       number(-2, 2),
	"frequency_penalty":      number(-2, 2),
	"seed":                   atLeast(math.MinInt64),
	"max_tokens":             atLeast(1),
	"max_completion_tokens":  atLeast(1),
	"max_output_tokens":      atLeast(16),
	"max_tool_calls":         atLeast(1),
	"store":                  {kind: "a boolean"},
	"metadata":               {kind: "metadata"},
	"user":                   text(maxEcho),
	"safety_identifier":      text(128),
	"prompt_cache_key":       text(maxEcho),
	"prompt_cache_retention": oneOf("in_memory", "in-memory", "24h"),
	"prompt_cache_options":   {kind: "an object"},
	"prediction":             {kind: "an object"},
	"stream_options":         {kind: "an object"},
	"client_metadata":        {kind: "an object"},
	"image":                  {kind: "an object"},
	"background_options":     {kind: "an object"},
	"context_management":     {kind: "a list"},
}

// maxEcho bounds texts that OpenAI's reference does not bound, and that responses repeat.
const maxEcho = 512

// maxValue is how much of the value of such a parameter is kept: more than metadata at its limits, with every character
// escaped.
const maxValue = 64 << 10

// checkValue refuses a value of the wrong type or range.
func checkValue(name string, raw json.RawMessage) error {
	want, known := paramValues[name]
	if raw = bytes.TrimSpace(raw); !known || string(raw) == "null" {
		return nil
	}
	kind := jsontext.Value(raw).Kind()
	switch {
	case want.kind == "metadata" && kind == '{':
		return checkMetadata(name, raw)
	case want.kind == "text" && kind == '"':
		return want.checkText(name, raw)
	case (want.kind == "a number" || want.kind == "a whole number") && kind == '0':
		return want.checkNumber(name, raw)
	case want.kind == "a boolean" && (kind == 't' || kind == 'f'), want.kind == "an object" && kind == '{',
		want.kind == "a list" && kind == '[':
		return nil
	}
	return openai.Invalid("invalid_type", name, fmt.Sprintf("%s must be %s, not a JSON %s", name, want, Kinds[kind]))
}

func (v value) checkNumber(name string, raw json.RawMessage) error {
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case v.kind == "a whole number" && n != math.Trunc(n):
		return openai.Invalid("invalid_type", name, fmt.Sprintf("%s must be %s, not %s", name, v,
			openai.Clip(string(raw))))
	case err != nil || n < v.min || n > v.max:
		return openai.Invalid("invalid_value", name, fmt.Sprintf("%s must be %s, not %s", name, v,
			openai.Clip(string(raw))))
	}
	return nil
}

func (v value) checkText(name string, raw json.RawMessage) error {
	var text string
	_ = Unmarshal(raw, &text) // a text longer than maxValue is cut off: its length alone counts
	switch {
	case v.length > 0 && (len(raw) == maxValue || utf8.RuneCountInString(text) > v.length),
		v.words != nil && !slices.Contains(v.words, text):
		return openai.Invalid("invalid_value", name, fmt.Sprintf("%s must be %s", name, v))
	}
	return nil
}

// CheckLengthOf refuses a text that is longer than the parameter may be.
func CheckLengthOf(name, text string) error {
	if want := paramValues[name]; utf8.RuneCountInString(text) > want.length {
		return openai.Invalid("invalid_value", name, fmt.Sprintf("%s must be %s", name, want))
	}
	return nil
}

// String is the value in words.
func (v value) String() string {
	switch {
	case v.words != nil:
		return strings.Join(v.words, " or ")
	case v.length > 0:
		return fmt.Sprintf("text of up to %d characters", v.length)
	case v.kind == "metadata":
		return fmt.Sprintf("an object of up to %d texts, with names of up to %d and values of up to %d characters",
			maxMetadata, maxMetadataKey, maxMetadataValue)
	case v.kind == "a number":
		return fmt.Sprintf("a number from %v to %v", v.min, v.max)
	case v.kind == "a whole number" && v.min > math.MinInt64:
		return fmt.Sprintf("a whole number of at least %v", v.min)
	case v.kind == "a whole number":
		return "a whole number of 64 bits"
	default:
		return v.kind
	}
}

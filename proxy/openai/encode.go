package openai

import (
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Encode is json.Marshal without the escapes that JSON does not need: with them a text of "<" is six times as long, and
// so would be the answer to a request with such a text.
func Encode(v any) ([]byte, error) { return jsonv2.Marshal(v, withoutHTMLEscapes) }

var withoutHTMLEscapes = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false))

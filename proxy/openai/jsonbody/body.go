package jsonbody

import (
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// Unmarshal is json.Unmarshal in one pass, which matters for a long history. Names
// are case-sensitive. It accepts duplicate names, for which CheckDuplicateNames checks a
// whole body once.
func Unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, AllowDuplicates)
}

// AllowDuplicates is the option to accept duplicate names, for a part of a body that has been checked.
var AllowDuplicates = jsontext.AllowDuplicateNames(true)

// Decode decodes a body, which must be an object, and explains every kind of invalid JSON.
func Decode(body []byte, v any) error {
	body = ValidUTF8(body)
	if err := Unmarshal(body, v); err != nil {
		return DecodeError(err)
	}
	if !IsObject(body) { // it is null
		return notAnObject()
	}
	return CheckDuplicateNames(body)
}

func notAnObject() error { return openai.Invalid("invalid_json", "", "the body must be a JSON object") }

// DecodeError explains the error of a decoder of a body, or of a part of one, at which its path begins.
func DecodeError(err error) error {
	var wrongType *jsonv2.SemanticError
	var syntax *jsontext.SyntacticError
	var invalid *openai.Error
	switch {
	case errors.As(err, &invalid):
		return invalid
	case errors.As(err, &syntax):
		return openai.Invalid("invalid_json", "",
			fmt.Sprintf("the body is not valid JSON at byte %d: %v", syntax.ByteOffset, syntax.Err))
	case errors.As(err, &wrongType):
		field := Path(wrongType.JSONPointer)
		switch {
		case field == "":
			return notAnObject()
		case wrongType.JSONKind == '0' && wrongType.Err != nil:
			return openai.Invalid("invalid_value", field, field+" must be a whole number within its range")
		}
		return openai.Invalid("invalid_type", field, fmt.Sprintf("%s must not be a JSON %s", field,
			Kinds[wrongType.JSONKind]))
	default:
		return openai.Invalid("invalid_json", "", "the body is not valid JSON: "+err.Error())
	}
}

// Kinds are the kinds of JSON values, in the words of errors.
var Kinds = map[jsontext.Kind]string{'n': "null", 'f': "boolean", 't': "boolean", '"': "string", '0': "number",
	'{': "object", '[': "array"}

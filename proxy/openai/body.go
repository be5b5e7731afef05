package openai

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// unmarshal is json.Unmarshal in one pass, which matters for a long history. Names
// are case-sensitive. It accepts duplicate names, for which checkDuplicateNames checks a
// whole body once.
func unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, allowDuplicates)
}

var allowDuplicates = jsontext.AllowDuplicateNames(true)

// valuePrefix is the beginning of a value, long enough to recognise an empty one without a copy of a whole history, and
// to check the value of a parameter in paramValues.
type valuePrefix string

// UnmarshalJSONFrom skips the value.
func (g *valuePrefix) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMembers); err != nil {
		return err
	}
	most := 16
	if _, checked := paramValues[from.StackPointer().LastToken()]; checked {
		most = maxValue
	}
	value, err := from.ReadValue()
	*g = valuePrefix(value[:min(len(value), most)])
	return err
}

// maxMembers bounds the members of an object that is read completely.
const maxMembers = 1000

// checkMembers is called before each value of an object. It refuses the object if it has more members than most: the
// names alone are several times as large in memory.
func checkMembers(from *jsontext.Decoder, most int64) error {
	if _, parts := from.StackIndex(from.StackDepth()); parts < 2*most {
		return nil
	}
	at := path(from.StackPointer().Parent())
	return Invalid("invalid_value", at,
		fmt.Sprintf("%s must not have more than %d members", cmp.Or(at, "the body"), most))
}

// boundedList is a list of which at most maxList+1 elements are decoded, so that a check of its length can refuse it:
// `{}` is a hundred times as large decoded.
type boundedList[T any] []T

// UnmarshalJSONFrom decodes the beginning of the list, and skips the rest.
func (s *boundedList[T]) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '[' {
		return jsonv2.UnmarshalDecode(from, (*[]T)(s)) // null, or an error
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	*s = boundedList[T]{}
	for from.PeekKind() != ']' {
		if len(*s) > maxList {
			if err := from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var one T
		if err := jsonv2.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		*s = append(slices.Grow(*s, growth(*s)), one)
	}
	_, err := from.ReadToken()
	return err
}

// growth returns the number of elements by which the capacity of a list grows: a full list doubles, up to maxList+1.
// append would copy a long list twice as often.
func growth[T any](list []T) int {
	if len(list) < cap(list) {
		return 1
	}
	return max(1, min(len(list), maxList+1-len(list)))
}

// decodeBody decodes a body, which must be an object, and explains every kind of invalid JSON.
func decodeBody(body []byte, v any) error {
	body = validUTF8(body)
	if err := unmarshal(body, v); err != nil {
		return decodeError(err)
	}
	if !isObject(body) { // it is null
		return notAnObject()
	}
	return checkDuplicateNames(body)
}

func notAnObject() error { return Invalid("invalid_json", "", "the body must be a JSON object") }

func decodeError(err error) error {
	var wrongType *jsonv2.SemanticError
	var syntax *jsontext.SyntacticError
	var invalid *Error
	switch {
	case errors.As(err, &invalid):
		return invalid
	case errors.As(err, &syntax):
		return Invalid("invalid_json", "",
			fmt.Sprintf("the body is not valid JSON at byte %d: %v", syntax.ByteOffset, syntax.Err))
	case errors.As(err, &wrongType):
		field := path(wrongType.JSONPointer)
		switch {
		case field == "":
			return notAnObject()
		case wrongType.JSONKind == '0' && wrongType.Err != nil:
			return Invalid("invalid_value", field, field+" must be a whole number within its range")
		}
		return Invalid("invalid_type", field, fmt.Sprintf("%s must not be a JSON %s", field, kinds[wrongType.JSONKind]))
	default:
		return Invalid("invalid_json", "", "the body is not valid JSON: "+err.Error())
	}
}

var kinds = map[jsontext.Kind]string{'n': "null", 'f': "boolean", 't': "boolean", '"': "string", '0': "number",
	'{': "object", '[': "array"}

// path is the pointer in the form of an error's param: messages[0].content.
func path(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(token))
	}
	return b.String()
}

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

// unmarshal is json.Unmarshal in one pass, which a long history deserves. Names
// are case-sensitive. That no name is there twice is left to checkNames, once for a
// whole body.
func unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, lenient)
}

var lenient = jsontext.AllowDuplicateNames(true)

// glimpse is the beginning of a value, enough to tell whether it asks for
// something: a history need not be copied for that.
type glimpse string

// UnmarshalJSONFrom passes over the value.
func (g *glimpse) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMembers); err != nil {
		return err
	}
	value, err := from.ReadValue()
	*g = glimpse(value[:min(len(value), 16)])
	return err
}

// maxMembers bounds an object of which every member is looked at.
const maxMembers = 1000

// checkMembers refuses the object whose value comes next if it has more members
// than that: its names alone are several times as large in memory.
func checkMembers(from *jsontext.Decoder, most int64) error {
	if _, parts := from.StackIndex(from.StackDepth()); parts < 2*most {
		return nil
	}
	at := path(from.StackPointer().Parent())
	return Invalid("invalid_value", at,
		fmt.Sprintf("%s must not have more than %d members", cmp.Or(at, "the body"), most))
}

// some is a list of which no more is decoded than one element too many, which is
// refused where lengths are checked: `{}` is a hundred times as large decoded.
type some[T any] []T

// UnmarshalJSONFrom decodes the beginning of the list, and passes over the rest.
func (s *some[T]) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '[' {
		return jsonv2.UnmarshalDecode(from, (*[]T)(s)) // null, or an error
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	*s = some[T]{}
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
		*s = append(slices.Grow(*s, roomIn(*s)), one)
	}
	_, err := from.ReadToken()
	return err
}

// roomIn is how much more room a list gets for its next element: as much as it has, if
// it is full. append would copy a long one twice as often.
func roomIn[T any](list []T) int {
	if len(list) < cap(list) {
		return 1
	}
	return max(1, len(list))
}

// decodeBody decodes an object, which must be done with body, and gives every way in
// which JSON can be wrong its own words.
func decodeBody(body []byte, v any) error {
	body = tame(body)
	if err := unmarshal(body, v); err != nil {
		return explain(err)
	}
	if !isObject(body) { // it is null
		return notAnObject()
	}
	return checkNames(body)
}

func notAnObject() error { return Invalid("invalid_json", "", "the body must be a JSON object") }

func explain(err error) error {
	var wrongType *jsonv2.SemanticError
	var syntax *jsontext.SyntacticError
	var told *Error
	switch {
	case errors.As(err, &told):
		return told
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

// path is where p points to, as we name fields: messages[0].content.
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

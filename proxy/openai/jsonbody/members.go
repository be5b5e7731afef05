package jsonbody

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// ValuePrefix is the beginning of a value, long enough to recognise an empty one without a copy of a whole history, and
// to check the value of a parameter in paramValues.
type ValuePrefix string

// UnmarshalJSONFrom skips the value.
func (g *ValuePrefix) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMembers); err != nil {
		return err
	}
	most := 16
	if _, checked := paramValues[from.StackPointer().LastToken()]; checked {
		most = maxValue
	}
	value, err := from.ReadValue()
	*g = ValuePrefix(value[:min(len(value), most)])
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
	at := Path(from.StackPointer().Parent())
	return openai.Invalid("invalid_value", at,
		fmt.Sprintf("%s must not have more than %d members", cmp.Or(at, "the body"), most))
}

// MemberValue is the value of one of at most maxMembers members.
type MemberValue struct{ json.RawMessage }

// UnmarshalJSONFrom refuses the value after the last allowed one.
func (v *MemberValue) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if err := checkMembers(from, maxMembers); err != nil {
		return err
	}
	value, err := from.ReadValue()
	v.RawMessage = bytes.Clone(value)
	return err
}

// IsSet reports whether the value is more than null, false or empty.
func (g ValuePrefix) IsSet() bool { return !isEmptyValue(json.RawMessage(g)) }

package jsonbody

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// Whole is a whole number of a request. JSON has one kind of numbers (RFC 8259, section 6), and some clients write 1 as
// 1.0.
type Whole int64

// UnmarshalJSONFrom accepts each form of a whole number.
func (w *Whole) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '0' {
		return jsonv2.UnmarshalDecode(from, (*int64)(w)) // null, or an error
	}
	value, err := from.ReadValue()
	if err != nil {
		return err
	}
	n, err := wholeNumber(string(value))
	if err != nil {
		at := Path(from.StackPointer())
		return openai.Invalid("invalid_value", at, fmt.Sprintf("%s must be a whole number within its range", at))
	}
	*w = Whole(n)
	return nil
}

// maxExact is up to where float64 has every whole number.
const maxExact = 1 << 53

var errNotWhole = errors.New("not a whole number within its range")

// wholeNumber reads a number as JSON has it.
func wholeNumber(number string) (int64, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
		return 0, errNotWhole
	}
	return int64(f), nil
}

package jsonbody

import (
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// List is a list of which at most MaxList+1 elements are decoded, so that a check of its length can refuse it:
// `{}` is a hundred times as large decoded.
type List[T any] []T

// UnmarshalJSONFrom decodes the beginning of the list, and skips the rest.
func (s *List[T]) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '[' {
		return jsonv2.UnmarshalDecode(from, (*[]T)(s)) // null, or an error
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	*s = List[T]{}
	for from.PeekKind() != ']' {
		if len(*s) > MaxList {
			if err := from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var one T
		if err := jsonv2.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		*s = append(slices.Grow(*s, Growth(*s)), one)
	}
	_, err := from.ReadToken()
	return err
}

// Growth returns the number of elements by which the capacity of a list grows: a full list doubles, up to MaxList+1.
// append would copy a long list twice as often.
func Growth[T any](list []T) int {
	if len(list) < cap(list) {
		return 1
	}
	return max(1, min(len(list), MaxList+1-len(list)))
}

// MaxList bounds every list of a request.
const MaxList = 10_000

package parameter

import (
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"codex-proxy/proxy/openai"
)

// Limits on stop: the OpenAI reference limits the number of sequences to 4, and not their length.
const (
	maxStops    = 4
	maxStopSize = 1 << 10 // bytes of one sequence
)

var stopPaths = [maxStops]string{"stop[0]", "stop[1]", "stop[2]", "stop[3]"}

// Stop are a string, or a list of strings. null, an empty list and an empty string are no stop sequence.
type Stop []string

// UnmarshalJSONFrom decodes both forms.
func (s *Stop) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	switch from.PeekKind() {
	case 'n':
		return from.SkipValue()
	case '"':
		var one string
		if err := jsonv2.UnmarshalDecode(from, &one); err != nil || one == "" {
			return err
		}
		*s = Stop{one}
		return checkStop(one, "stop")
	case '[':
		return s.readList(from)
	default:
		return openai.Invalid("invalid_type", "stop", "stop must be a string or a list of strings")
	}
}

func (s *Stop) readList(from *jsontext.Decoder) error {
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	for i := 0; from.PeekKind() != ']'; i++ {
		switch {
		case i == maxStops:
			return openai.Invalid("invalid_value", "stop", fmt.Sprintf("stop must not hold more than %d sequences",
				maxStops))
		case from.PeekKind() != '"':
			return openai.Invalid("invalid_type", stopPaths[i], stopPaths[i]+" must be a string")
		}
		var one string
		if err := jsonv2.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		if err := checkStop(one, stopPaths[i]); err != nil {
			return err
		}
		*s = append(*s, one)
	}
	_, err := from.ReadToken()
	return err
}

func checkStop(sequence, at string) error {
	switch {
	case sequence == "":
		return openai.Invalid("invalid_value", at, at+" must not be empty: the answer would end before its first word")
	case len(sequence) > maxStopSize:
		return openai.Invalid("invalid_value", at, fmt.Sprintf("%s must not be longer than %d bytes", at, maxStopSize))
	}
	return nil
}
